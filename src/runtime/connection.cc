#include "src/runtime/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "fmt/format.h"

namespace stepcast::runtime {
namespace {

// A message is its length, 8 bytes, little end first, and its bytes.
constexpr std::size_t kHeader = 8;

Failure SystemFailure(int error) { return {std::strerror(error)}; }

std::string Framed(std::string_view message) {
  std::string framed(kHeader, '\0');
  for (std::size_t i = 0; i < kHeader; ++i) {
    framed[i] = static_cast<char>(static_cast<std::uint64_t>(message.size()) >> (8 * i));
  }
  framed.append(message);
  return framed;
}

// Waits until `events` hold or the deadline has passed; whether they hold.
Attempt<bool> Wait(int descriptor, short events, Deadline deadline) {
  std::vector<pollfd> entries{{.fd = descriptor, .events = events, .revents = 0}};
  if (auto waited = Poll(entries, deadline); !waited) return tl::unexpected(waited.error());
  return entries.front().revents != 0;
}

void SetOptions(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

void Close(int& descriptor) {
  if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

}  // namespace

Connection::Connection(int descriptor) : descriptor_(descriptor) { SetOptions(descriptor); }

Connection::Connection(Connection&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      outbox_(std::move(other.outbox_)),
      inbox_(std::move(other.inbox_)),
      limit_(other.limit_) {}

Connection& Connection::operator=(Connection&& other) noexcept {
  if (this != &other) {
    Close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    outbox_ = std::move(other.outbox_);
    inbox_ = std::move(other.inbox_);
    limit_ = other.limit_;
  }
  return *this;
}

Connection::~Connection() { Close(descriptor_); }

Attempt<void> Connection::Flush() {
  std::size_t sent = 0;
  while (sent < outbox_.size()) {
    const ssize_t written =
        ::send(descriptor_, outbox_.data() + sent, outbox_.size() - sent, MSG_NOSIGNAL);
    if (written >= 0) {
      sent += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return tl::unexpected(SystemFailure(errno));
    }
  }
  outbox_.erase(0, sent);
  return {};
}

Attempt<void> Connection::Queue(std::string_view message) {
  outbox_ += Framed(message);
  return Flush();
}

Attempt<void> Connection::Send(std::string_view message, Deadline deadline) {
  if (auto queued = Queue(message); !queued) return queued;
  while (!outbox_.empty()) {
    const auto ready = Wait(descriptor_, POLLOUT, deadline);
    if (!ready) return tl::unexpected(ready.error());
    if (!*ready) return tl::unexpected(Failure{"no answer in time"});
    if (auto flushed = Flush(); !flushed) return flushed;
  }
  return {};
}

Attempt<std::optional<std::string>> Connection::Take() {
  for (;;) {
    if (inbox_.size() >= kHeader) {
      std::uint64_t length = 0;
      for (std::size_t i = 0; i < kHeader; ++i) {
        length |= std::uint64_t{static_cast<unsigned char>(inbox_[i])} << (8 * i);
      }
      if (length > limit_) return tl::unexpected(Failure{"what came is no message"});
      if (inbox_.size() - kHeader >= length) {
        std::string message = inbox_.substr(kHeader, length);
        inbox_.erase(0, kHeader + length);
        return message;
      }
    }
    std::array<char, 1 << 16> bytes;
    const ssize_t got = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      inbox_.append(bytes.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      return tl::unexpected(Failure{"the connection was closed"});
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return std::nullopt;
    } else if (errno != EINTR) {
      return tl::unexpected(SystemFailure(errno));
    }
  }
}

Attempt<std::string> Connection::Receive(Deadline deadline) {
  for (;;) {
    auto message = Take();
    if (!message) return tl::unexpected(message.error());
    if (message->has_value()) return std::move(**message);
    const auto ready = Wait(descriptor_, POLLIN, deadline);
    if (!ready) return tl::unexpected(ready.error());
    if (!*ready) return tl::unexpected(Failure{"no answer in time"});
  }
}

std::string Connection::PeerAddress() const {
  SocketAddress address;
  address.size = sizeof address.bytes;
  if (::getpeername(descriptor_, address.pointer(), &address.size) != 0) return "";
  return address.Numerical();
}

std::string Connection::OwnAddress() const {
  SocketAddress address;
  address.size = sizeof address.bytes;
  if (::getsockname(descriptor_, address.pointer(), &address.size) != 0) return "";
  return address.Numerical();
}

Attempt<Listener> Listener::Open(const std::string& address, int port) {
  Attempt<std::vector<SocketAddress>> found = Resolve(address.empty() ? "::" : address, port);
  int descriptor = -1;
  if (found) {
    descriptor = ::socket(found->front().bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  }
  if (descriptor < 0 && address.empty()) {  // a machine without IPv6
    found = Resolve("0.0.0.0", port);
    if (found) descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  }
  if (!found) return tl::unexpected(found.error());
  if (descriptor < 0) return tl::unexpected(SystemFailure(errno));
  Listener listener(descriptor, 0);
  const int on = 1;
  const int off = 0;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  SocketAddress& own = found->front();
  // At all addresses an IPv6 socket takes IPv4 connections, too.
  if (address.empty() && own.bytes.ss_family == AF_INET6) {
    ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  constexpr int kBacklog = 4096;
  if (::bind(descriptor, own.pointer(), own.size) != 0 || ::listen(descriptor, kBacklog) != 0 ||
      ::getsockname(descriptor, own.pointer(), &own.size) != 0) {
    return tl::unexpected(SystemFailure(errno));
  }
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  listener.port_ = ntohs(own.bytes.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6&>(own.bytes).sin6_port
                             : reinterpret_cast<const sockaddr_in&>(own.bytes).sin_port);
  return listener;
}

Listener::Listener(Listener&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), port_(other.port_) {}

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this != &other) {
    Close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    port_ = other.port_;
  }
  return *this;
}

Listener::~Listener() { Close(descriptor_); }

Attempt<std::optional<Connection>> Listener::Accept() {
  for (;;) {
    const int accepted = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted >= 0) return Connection(accepted);
    switch (errno) {
      case EAGAIN:
        return std::nullopt;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        return tl::unexpected(Failure{kNoRoom});
      case EBADF:
      case EFAULT:
      case EINVAL:
      case ENOTSOCK:
      case EOPNOTSUPP:
        return tl::unexpected(SystemFailure(errno));
      default:
        continue;  // of the connection that was to be taken, as accept(2) says
    }
  }
}

std::string SocketAddress::Numerical() const {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(pointer(), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  // An IPv4 connection to an IPv6 socket.
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view address = text.data();
  return std::string(address.starts_with(kMapped) && address.find('.') != std::string_view::npos
                         ? address.substr(kMapped.size())
                         : address);
}

bool SocketAddress::loopback() const {
  const std::string address = Numerical();
  return address == "::1" || address.starts_with("127.");
}

Attempt<std::vector<SocketAddress>> Resolve(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error =
          ::getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &wanted, &found);
      error != 0) {
    return tl::unexpected(Failure{::gai_strerror(error)});
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.bytes, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
  }
  if (addresses.empty()) return tl::unexpected(Failure{"no address"});
  return addresses;
}

Attempt<Connection> Connect(const std::vector<SocketAddress>& addresses, Deadline deadline) {
  Failure last{"no address"};
  auto left = static_cast<std::int64_t>(addresses.size());
  for (const SocketAddress& address : addresses) {
    const auto now = std::chrono::steady_clock::now();
    const Deadline own = deadline == kNever ? kNever : now + (deadline - now) / left--;
    const int descriptor = ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
      last = SystemFailure(errno);
      continue;
    }
    Connection connection(descriptor);
    if (::connect(descriptor, address.pointer(), address.size) != 0 && errno != EINPROGRESS) {
      last = SystemFailure(errno);
      continue;
    }
    const auto ready = Wait(descriptor, POLLOUT, own);
    if (!ready) return tl::unexpected(ready.error());
    if (!*ready) {
      last = {"no answer in time"};
      continue;
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return connection;
    last = SystemFailure(error);
  }
  return tl::unexpected(last);
}

Attempt<Connection> Connect(const std::string& host, int port, Deadline deadline) {
  const auto addresses = Resolve(host, port);
  if (!addresses) return tl::unexpected(addresses.error());
  return Connect(*addresses, deadline);
}

Attempt<void> Poll(std::vector<pollfd>& entries, Deadline deadline) {
  for (;;) {
    int pause = -1;
    if (deadline != kNever) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pause = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
    }
    const int ready = ::poll(entries.data(), entries.size(), pause);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return tl::unexpected(SystemFailure(errno));
    if (ready == 0 && std::chrono::steady_clock::now() >= deadline) return {};
  }
}

namespace {

struct OwnAddress {
  SocketAddress address;
  bool loopback = false;
};

std::vector<OwnAddress> Interfaces() {
  std::vector<OwnAddress> all;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    OwnAddress own;
    own.address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&own.address.bytes, entry->ifa_addr, own.address.size);
    own.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    all.push_back(own);
  }
  ::freeifaddrs(list);
  return all;
}

}  // namespace

std::vector<std::string> AllOwnAddresses() {
  std::vector<std::string> all;
  for (const OwnAddress& own : Interfaces()) all.push_back(own.address.Numerical());
  return all;
}

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> others;
  std::vector<std::string> loopback;
  for (const OwnAddress& own : Interfaces()) {
    // Link-local IPv6 addresses mean nothing without the interface: IPv4 alone is enough here.
    if (own.address.bytes.ss_family != AF_INET) continue;
    (own.loopback ? loopback : others).push_back(own.address.Numerical());
  }
  others.insert(others.end(), loopback.begin(), loopback.end());
  if (others.empty()) others.emplace_back("127.0.0.1");
  return others;
}

}  // namespace stepcast::runtime
