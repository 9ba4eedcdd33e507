#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/runtime/device.h"

// TCP connections that carry whole messages: what ranks say to each other where there is no MPI,
// and what watches over them.
namespace stepcast::runtime {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();

// One end of a connection. Failures say what happened and leave it to the caller to say with whom.
// After a failure the connection can only be destroyed.
class Connection {
 public:
  // Takes over a connected socket.
  explicit Connection(int descriptor);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;
  ~Connection();

  // These wait, at most until the deadline.
  Attempt<void> Send(std::string_view message, Deadline deadline);
  Attempt<std::string> Receive(Deadline deadline);

  // For those who poll() several connections at once. Queue never waits: what does not fit into the
  // socket stays here until the next Queue or Flush.
  Attempt<void> Queue(std::string_view message);
  Attempt<void> Flush();
  std::size_t queued() const { return outbox_.size(); }
  // A message that has arrived, if one has arrived whole.
  Attempt<std::optional<std::string>> Take();

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  std::string outbox_;
  std::string inbox_;
};

// Takes connections on a port of all of this machine's addresses.
class Listener {
 public:
  // Port 0: any free one.
  static Attempt<Listener> Open(int port);
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  int port() const { return port_; }
  int descriptor() const { return descriptor_; }
  // Nothing when nobody has come by the deadline.
  Attempt<std::optional<Connection>> Accept(Deadline deadline);

 private:
  Listener(int descriptor, int port) : descriptor_(descriptor), port_(port) {}

  int descriptor_ = -1;
  int port_ = 0;
};

// `host` is a name or an address.
Attempt<Connection> Connect(const std::string& host, int port, Deadline deadline);

// The addresses at which others may reach this machine, loopback last.
std::vector<std::string> OwnAddresses();

}  // namespace stepcast::runtime
