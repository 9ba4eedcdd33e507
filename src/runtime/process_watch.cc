#include "src/runtime/process_watch.h"

#include "fmt/format.h"

namespace stepcast::runtime::watching {

void ProcessWatch::Listen(std::vector<pollfd>& entries) {
  for (const auto& [rank, neighbour] : neighbours_) {
    if (neighbour.gone) continue;
    const bool more = neighbour.connection.queued() > 0;
    entries.push_back({.fd = neighbour.connection.descriptor(),
                       .events = static_cast<short>(more ? POLLIN | POLLOUT : POLLIN),
                       .revents = 0});
  }
}

void ProcessWatch::ReceiveMessages() {
  for (auto& [rank, neighbour] : neighbours_) {
    while (!neighbour.gone) {
      auto message = neighbour.connection.Take();
      if (!message) {
        neighbour.gone = true;
        if (WasStopped()) EndProcess(1, "");
        Lost(rank, fmt::format("{} has ended unexpectedly", RankOnHost(rank)), Kind::kDied);
        break;
      }
      if (!message->has_value()) break;
      neighbour.heard = steady_clock::now();
      ByteReader reader(**message);
      const auto kind = static_cast<MessageKind>(reader.Number());
      if (kind == MessageKind::kBye) {
        neighbour.gone = true;
      } else {
        OnMessage(rank, kind, reader);
      }
    }
    if (!neighbour.gone) (void)neighbour.connection.Flush();
  }
  const auto now = steady_clock::now();
  for (auto& [rank, neighbour] : neighbours_) {
    if (neighbour.gone || now - neighbour.heard < silence_) continue;
    neighbour.gone = true;
    Lost(rank, fmt::format("{} has not been heard of for {}", RankOnHost(rank), Seconds(silence_)),
         Kind::kSilent);
  }
}

void ProcessWatch::Send(Neighbour& neighbour, std::string_view message) {
  // Heartbeats that do not fit into the socket are dropped: only the latest one counts.
  constexpr std::size_t kEnough = 1 << 14;
  if (!neighbour.gone && neighbour.connection.queued() < kEnough) {
    (void)neighbour.connection.Queue(message);
  }
}

void ProcessWatch::SendHeartbeats() {
  const std::string heartbeat = ToBytes(local().at(rank_).Now());
  for (auto& [rank, neighbour] : neighbours_) Send(neighbour, heartbeat);
  if (rank_ == 0) CheckForHang();
}

void ProcessWatch::Leave() {
  for (auto& [rank, neighbour] : neighbours_) Send(neighbour, ToBytes(MessageKind::kBye));
  Drain(kDecisionTimeout);
}

void ProcessWatch::Drain(milliseconds timeout) {
  const Deadline deadline = steady_clock::now() + timeout;
  for (auto& [rank, neighbour] : neighbours_) {
    while (!neighbour.gone) {
      const auto message = neighbour.connection.Receive(deadline);
      ByteReader reader(message ? std::string_view(*message) : std::string_view());
      neighbour.gone = !message || static_cast<MessageKind>(reader.Number()) == MessageKind::kBye;
    }
  }
}

}  // namespace stepcast::runtime::watching
