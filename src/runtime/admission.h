#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/runtime/connection.h"
#include "src/runtime/device.h"

// Connections between processes that know the same secret, where others can connect as well.
//
//   host    greeting, number h        at once, 32 random bytes
//   guest   number g, hello, code     code: HMAC of the secret over "guest", port, h, g, hello
//   host    answer, code              code: HMAC of the secret over "host", port, h, g, answer
//
// Both numbers are new for each connection, so that no message can be replayed; the port is in the
// codes, so that they cannot be relayed from another port. The secret itself is never sent. What
// follows is neither encrypted nor authenticated: an attacker who can change packets on the way can
// change it (docs/security.md).
namespace stepcast::runtime {

// A guest that has proved that it knows the secret.
struct Guest {
  Connection connection;
  std::string hello;

  // The host's answer, once; what does not fit into the socket is sent later.
  Attempt<void> Answer(std::string_view answer);

  std::string context{};  // of the answer's code
  std::string secret{};
};

// The host's side: takes connections side by side. None blocks another, and what an unauthenticated
// connection costs is bounded: a message of 4 KiB, two seconds, one of 128 places.
class Admission {
 public:
  Admission(Listener listener, std::string secret);

  // The next guest; nothing when none has come by the deadline.
  Attempt<std::optional<Guest>> Next(Deadline deadline);

  // "41 connections that did not prove to be of this job: 10.0.0.7 (40), 127.0.0.1 (1)"; empty when
  // there was none.
  std::string Strangers() const;

  int port() const { return listener_.port(); }
  // Ends the admission.
  Listener TakeListener() { return std::move(listener_); }

 private:
  struct Unproved {
    Connection connection;
    std::string address;
    std::string number;  // ours
    Deadline come;
  };

  Attempt<void> AcceptAll();
  // The state of a connection: authenticated, undecided, or refused with the reason.
  Attempt<std::optional<Guest>> Hear(Unproved& unproved);
  void TurnAway(std::size_t index);

  Listener listener_;
  std::string secret_;
  std::vector<Unproved> unproved_;        // oldest first
  bool no_room_ = false;                  // no connection can be taken before one is turned away
  std::map<std::string, int> strangers_;  // by address
  int turned_away_ = 0;
};

// The guest's side, on a new connection to `port`: the host's answer. Failures tell a host that
// does not prove that it knows the secret, or that says this guest does not.
Attempt<std::string> Introduce(Connection& connection, int port, std::string_view secret,
                               std::string_view hello, Deadline deadline);

}  // namespace stepcast::runtime
