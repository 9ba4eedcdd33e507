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
constexpr std::uint64_t kLongest = std::uint64_t{1} << 32;

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
  for (;;) {
    int pause = -1;
    if (deadline != kNever) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pause = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
    }
    pollfd entry{.fd = descriptor, .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, pause);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return tl::unexpected(SystemFailure(errno));
    if (ready == 0 && std::chrono::steady_clock::now() >= deadline) return false;
  }
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
      inbox_(std::move(other.inbox_)) {}

Connection& Connection::operator=(Connection&& other) noexcept {
  if (this != &other) {
    Close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    outbox_ = std::move(other.outbox_);
    inbox_ = std::move(other.inbox_);
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
      if (length > kLongest) return tl::unexpected(Failure{"what came is no message"});
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

Attempt<Listener> Listener::Open(int port) {
  int descriptor = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool both = descriptor >= 0;  // IPv6 sockets take IPv4 connections, too
  if (!both) descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return tl::unexpected(SystemFailure(errno));
  Listener listener(descriptor, 0);
  const int on = 1;
  const int off = 0;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 six{};
  sockaddr_in four{};
  sockaddr* address = nullptr;
  socklen_t size = 0;
  if (both) {
    ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_any;
    six.sin6_port = htons(static_cast<std::uint16_t>(port));
    address = reinterpret_cast<sockaddr*>(&six);
    size = sizeof six;
  } else {
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(port));
    address = reinterpret_cast<sockaddr*>(&four);
    size = sizeof four;
  }
  constexpr int kBacklog = 4096;
  if (::bind(descriptor, address, size) != 0 || ::listen(descriptor, kBacklog) != 0 ||
      ::getsockname(descriptor, address, &size) != 0) {
    return tl::unexpected(SystemFailure(errno));
  }
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  listener.port_ = ntohs(both ? six.sin6_port : four.sin_port);
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

Attempt<std::optional<Connection>> Listener::Accept(Deadline deadline) {
  for (;;) {
    const int accepted = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted >= 0) return Connection(accepted);
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return tl::unexpected(SystemFailure(errno));
    const auto ready = Wait(descriptor_, POLLIN, deadline);
    if (!ready) return tl::unexpected(ready.error());
    if (!*ready) return std::nullopt;
  }
}

Attempt<Connection> Connect(const std::string& host, int port, Deadline deadline) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error =
          ::getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &wanted, &found);
      error != 0) {
    return tl::unexpected(Failure{::gai_strerror(error)});
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  Failure last{"no address"};
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    const int descriptor = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
      last = SystemFailure(errno);
      continue;
    }
    Connection connection(descriptor);
    if (::connect(descriptor, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
      last = SystemFailure(errno);
      continue;
    }
    const auto ready = Wait(descriptor, POLLOUT, deadline);
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

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> others;
  std::vector<std::string> loopback;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {"127.0.0.1"};
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    // Link-local IPv6 addresses mean nothing without the interface: IPv4 alone is enough here.
    if (family != AF_INET) continue;
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(entry->ifa_addr, sizeof(sockaddr_in), text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0) {
      continue;
    }
    ((entry->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : others).emplace_back(text.data());
  }
  ::freeifaddrs(list);
  others.insert(others.end(), loopback.begin(), loopback.end());
  return others;
}

}  // namespace stepcast::runtime
