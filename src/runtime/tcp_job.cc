#include "src/runtime/tcp_job.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/runtime/byte_stream.h"
#include "src/runtime/connection.h"
#include "src/runtime/places.h"

namespace stepcast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kGreeting = "stepcast job 1";
constexpr std::string_view kHeard = "heard";      // at once; the guest then waits for the others
constexpr std::string_view kWelcome = "welcome";  // all have come
// How long one door is knocked at: something that is not ours may listen there and never answer.
constexpr milliseconds kKnock(2000);

std::string Who(const Place& place) {
  return fmt::format("rank {} on '{}'", place.rank, place.host);
}

// Rank 0 has a connection to every other rank, the others have one to rank 0.
class TcpJob final : public Job {
 public:
  TcpJob(std::vector<Place> places, int rank, std::vector<std::optional<Connection>> connections)
      : places_(std::move(places)),
        place_(places_[static_cast<std::size_t>(rank)]),
        connections_(std::move(connections)) {}

  const Place& place() const override { return place_; }

  Attempt<void> Barrier() override {
    if (auto gathered = Gather({}); !gathered) return tl::unexpected(gathered.error());
    if (auto sent = Broadcast({}); !sent) return tl::unexpected(sent.error());
    return {};
  }

  Attempt<std::vector<std::string>> Gather(std::string bytes) override {
    std::vector<std::string> all;
    if (place_.rank != 0) {
      if (auto sent = connections_[0]->Send(bytes, kNever); !sent) {
        return tl::unexpected(Gone(0, sent.error()));
      }
      return all;
    }
    all.push_back(std::move(bytes));
    for (std::size_t rank = 1; rank < places_.size(); ++rank) {
      auto message = connections_[rank]->Receive(kNever);
      if (!message) return tl::unexpected(Gone(rank, message.error()));
      all.push_back(std::move(*message));
    }
    return all;
  }

  Attempt<std::string> Broadcast(std::string bytes) override {
    if (place_.rank != 0) {
      auto message = connections_[0]->Receive(kNever);
      if (!message) return tl::unexpected(Gone(0, message.error()));
      return message;
    }
    for (std::size_t rank = 1; rank < places_.size(); ++rank) {
      if (auto sent = connections_[rank]->Send(bytes, kNever); !sent) {
        return tl::unexpected(Gone(rank, sent.error()));
      }
    }
    return bytes;
  }

 private:
  Failure Gone(std::size_t rank, const Failure& failure) const {
    return {fmt::format("{} cannot be reached any more: {}", Who(places_[rank]), failure.message)};
  }

  std::vector<Place> places_;
  Place place_;
  std::vector<std::optional<Connection>> connections_;  // by rank
};

std::string Hello(const Rendezvous& rendezvous) {
  ByteWriter hello;
  hello.Text(kGreeting);
  hello.Text(rendezvous.run_id);
  hello.Number(static_cast<std::uint64_t>(rendezvous.ranks));
  hello.Number(static_cast<std::uint64_t>(rendezvous.rank));
  hello.Text(HostName());
  hello.Signed(rendezvous.local_rank);
  return hello.Take();
}

struct Guest {
  int rank = 0;
  Whereabouts whereabouts;
};

// Who says hello, or why not; nothing for who does not belong to this job at all.
std::optional<tl::expected<Guest, std::string>> ReadHello(std::string_view bytes,
                                                          const Rendezvous& rendezvous) {
  ByteReader hello(bytes);
  if (hello.Text() != kGreeting || hello.Text() != rendezvous.run_id) return std::nullopt;
  const auto ranks = hello.Number();
  const auto rank = hello.Number();
  Guest guest{.rank = 0, .whereabouts = {.host = hello.Text()}};
  guest.whereabouts.local_rank = static_cast<int>(hello.Signed());
  if (hello.bad()) return std::nullopt;
  if (ranks != static_cast<std::uint64_t>(rendezvous.ranks)) {
    return tl::unexpected(
        fmt::format("rank {} on '{}' was started as one of {}, rank 0 as one of "
                    "{}",
                    rank, guest.whereabouts.host, ranks, rendezvous.ranks));
  }
  guest.rank = static_cast<int>(rank);
  return guest;
}

std::string WritePlaces(const std::vector<Whereabouts>& ranks) {
  ByteWriter writer;
  writer.Text(kWelcome);
  for (const Whereabouts& rank : ranks) {
    writer.Text(rank.host);
    writer.Signed(rank.local_rank);
  }
  return writer.Take();
}

std::string Refusal(const std::string& reason) {
  ByteWriter writer;
  writer.Text("refused");
  writer.Text(reason);
  return writer.Take();
}

int FirstPort(const Rendezvous& rendezvous) {
  return rendezvous.port + (rendezvous.port_taken ? 1 : 0);
}

Attempt<Listener> OpenDoor(const Rendezvous& rendezvous) {
  const int first = FirstPort(rendezvous);
  Failure last;
  for (int port = first; port < std::min(first + kPorts, 65536); ++port) {
    auto door = Listener::Open(port);
    if (door) return door;
    last = door.error();
  }
  return tl::unexpected(Failure{fmt::format(
      "rank 0 cannot listen on any of the {} ports from {}: {}", kPorts, first, last.message)});
}

std::string Missing(const std::vector<std::optional<Connection>>& connections) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 1; rank < connections.size(); ++rank) {
    if (!connections[rank]) ranks.push_back(rank);
  }
  constexpr std::size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  if (ranks.size() > kShown) text += fmt::format(" and {} more", ranks.size() - kShown);
  return text;
}

Attempt<std::unique_ptr<Job>> Receive(const Rendezvous& rendezvous) {
  auto door = OpenDoor(rendezvous);
  if (!door) return tl::unexpected(door.error());
  const Deadline deadline = steady_clock::now() + rendezvous.timeout;
  const auto ranks = static_cast<std::size_t>(rendezvous.ranks);
  std::vector<std::optional<Connection>> connections(ranks);
  std::vector<Whereabouts> whereabouts(ranks);
  whereabouts[0] = {HostName(), rendezvous.local_rank};
  // Guests are heard side by side: one that says nothing must not hold the others up.
  std::vector<std::pair<Connection, Deadline>> silent;
  for (std::size_t come = 1; come < ranks;) {
    const auto now = steady_clock::now();
    if (now >= deadline) {
      return tl::unexpected(
          Failure{fmt::format("rank 0 waited {} s at port {} for {}", rendezvous.timeout.count(),
                              door->port(), Missing(connections))});
    }
    auto guest = door->Accept(std::min(deadline, now + milliseconds(silent.empty() ? 200 : 5)));
    if (!guest) return tl::unexpected(guest.error());
    if (guest->has_value()) silent.emplace_back(std::move(**guest), now + kKnock);
    for (std::size_t i = 0; i < silent.size();) {
      auto& [connection, patience] = silent[i];
      auto message = connection.Take();
      if (message && !message->has_value() && now < patience) {
        ++i;
        continue;
      }
      if (message && message->has_value()) {
        if (auto hello = ReadHello(**message, rendezvous)) {
          std::string reason;
          if (!*hello) {
            reason = hello->error();
          } else if ((*hello)->rank < 1 || (*hello)->rank >= rendezvous.ranks ||
                     connections[static_cast<std::size_t>((*hello)->rank)]) {
            reason = fmt::format("two processes were started as rank {}", (*hello)->rank);
          }
          if (!reason.empty()) {
            (void)connection.Send(Refusal(reason), now + kKnock);
            return tl::unexpected(Failure{reason});
          }
          if (!connection.Send(kHeard, now + kKnock)) {
            silent.erase(silent.begin() + static_cast<std::ptrdiff_t>(i));
            continue;  // it knocks again
          }
          const auto rank = static_cast<std::size_t>((*hello)->rank);
          whereabouts[rank] = (*hello)->whereabouts;
          connections[rank].emplace(std::move(connection));
          ++come;
        }
      }
      silent.erase(silent.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  std::vector<Place> places = PlacesOf(whereabouts);
  const std::string welcome = WritePlaces(whereabouts);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    if (auto sent = connections[rank]->Send(welcome, deadline); !sent) {
      return tl::unexpected(Failure{fmt::format("{} cannot be reached any more: {}",
                                                Who(places[rank]), sent.error().message)});
    }
  }
  return std::make_unique<TcpJob>(std::move(places), 0, std::move(connections));
}

Attempt<std::unique_ptr<Job>> Visit(const Rendezvous& rendezvous) {
  const Deadline deadline = steady_clock::now() + rendezvous.timeout;
  const std::string hello = Hello(rendezvous);
  const int first = FirstPort(rendezvous);
  const auto ranks = static_cast<std::size_t>(rendezvous.ranks);
  std::string last = "nobody answered";
  for (int knock = 0; steady_clock::now() < deadline; ++knock) {
    const int port = first + knock % kPorts;
    if (port > 65535) continue;
    const Deadline patience = std::min(deadline, steady_clock::now() + kKnock);
    auto connection = Connect(rendezvous.address, port, patience);
    if (!connection) {
      // The usual case: rank 0 is not there yet, and none of the ports is open.
      if (knock % kPorts == 0) last = connection.error().message;
      if (knock % kPorts == kPorts - 1) std::this_thread::sleep_for(milliseconds(50));
      continue;
    }
    if (!connection->Send(hello, patience)) continue;
    const auto heard = connection->Receive(patience);
    if (!heard) {
      last = heard.error().message;
      std::this_thread::sleep_for(milliseconds(20));
      continue;
    }
    if (ByteReader refusal(*heard); *heard != kHeard) {
      if (refusal.Text() == "refused") return tl::unexpected(Failure{refusal.Text()});
      continue;
    }
    const auto answer = connection->Receive(deadline);
    if (!answer) {
      return tl::unexpected(Failure{fmt::format("rank 0 at {} ended before all ranks had come: {}",
                                                rendezvous.address, answer.error().message)});
    }
    ByteReader reader(*answer);
    if (reader.Text() != kWelcome) {
      return tl::unexpected(Failure{"rank 0 is another version of stepcast"});
    }
    std::vector<Whereabouts> whereabouts(ranks);
    for (Whereabouts& rank : whereabouts) {
      rank.host = reader.Text();
      rank.local_rank = static_cast<int>(reader.Signed());
    }
    if (reader.bad()) return tl::unexpected(Failure{"rank 0 is another version of stepcast"});
    std::vector<std::optional<Connection>> connections(ranks);
    connections[0].emplace(std::move(*connection));
    return std::make_unique<TcpJob>(PlacesOf(whereabouts), rendezvous.rank, std::move(connections));
  }
  return tl::unexpected(Failure{fmt::format(
      "rank {} on '{}' did not find rank 0 at {}, ports from {}, in {} s: {}", rendezvous.rank,
      HostName(), rendezvous.address, first, rendezvous.timeout.count(), last)});
}

}  // namespace

Attempt<std::unique_ptr<Job>> JoinTcp(const Rendezvous& rendezvous) {
  return rendezvous.rank == 0 ? Receive(rendezvous) : Visit(rendezvous);
}

}  // namespace stepcast::runtime
