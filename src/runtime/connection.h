#pragma once

#include <poll.h>
#include <sys/socket.h>

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

  // For callers that poll() several connections at once. Queue never waits: what does not fit into
  // the socket stays here until the next Queue or Flush.
  Attempt<void> Queue(std::string_view message);
  Attempt<void> Flush();
  std::size_t queued() const { return outbox_.size(); }
  // A message that has arrived, if one has arrived whole.
  Attempt<std::optional<std::string>> Take();

  // The longest message that is taken, in bytes; one that says it is longer is a failure before it
  // has arrived.
  void Limit(std::size_t bytes) { limit_ = bytes; }
  static constexpr std::size_t kLongest = std::size_t{1} << 32;

  // Numerical, "10.0.0.1" or "fe80::1%eth0"; empty where the connection has ended.
  std::string PeerAddress() const;
  std::string OwnAddress() const;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  std::string outbox_;
  std::string inbox_;
  std::size_t limit_ = kLongest;
};

// Takes connections on a port.
class Listener {
 public:
  // At one of this machine's addresses, numerical; empty: at all. Port 0: any free one.
  static Attempt<Listener> Open(const std::string& address, int port);
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  int port() const { return port_; }
  int descriptor() const { return descriptor_; }
  // A connection that waits to be taken, if any does. Failures are of the listener, not of what
  // connects; kNoRoom may pass.
  Attempt<std::optional<Connection>> Accept();
  static constexpr const char* kNoRoom = "too many open files";

 private:
  Listener(int descriptor, int port) : descriptor_(descriptor), port_(port) {}

  int descriptor_ = -1;
  int port_ = 0;
};

// An address and port to connect to.
struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  sockaddr* pointer() { return reinterpret_cast<sockaddr*>(&bytes); }
  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  std::string Numerical() const;  // without the port
  bool loopback() const;
};

// `host` is a name or an address; it has one address or more.
Attempt<std::vector<SocketAddress>> Resolve(const std::string& host, int port);

// To the first that answers. Each has its part of the time: one that drops what is sent to it must
// not take it all.
Attempt<Connection> Connect(const std::vector<SocketAddress>& addresses, Deadline deadline);
Attempt<Connection> Connect(const std::string& host, int port, Deadline deadline);

// Waits until one of them is ready or the deadline has passed.
Attempt<void> Poll(std::vector<pollfd>& entries, Deadline deadline);

// All addresses of this machine, and the IPv4 ones at which others may reach it, loopback last.
std::vector<std::string> AllOwnAddresses();
std::vector<std::string> OwnAddresses();

}  // namespace stepcast::runtime
