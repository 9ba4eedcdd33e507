#include "src/runtime/tcp_job.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/printable.h"
#include "src/runtime/admission.h"
#include "src/runtime/authentication.h"
#include "src/runtime/byte_stream.h"
#include "src/runtime/connection.h"
#include "src/runtime/job_secret.h"
#include "src/runtime/rank_placement.h"

namespace stepcast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kHeard = "heard";      // at once; the guest then waits for the others
constexpr std::string_view kRefused = "refused";  // with a reason, and rank 0 fails by it
constexpr std::string_view kWelcome = "welcome";  // all have come; the guest says kHere
constexpr std::string_view kHere = "here";
// How long a port may take to answer: something else may listen there and never do.
constexpr milliseconds kConnectTimeout(2000);

std::string RankOnHost(const Place& place) {
  return fmt::format("rank {} on '{}'", place.rank, place.host);
}

// Rank 0 has a connection to every other rank, the others have one to rank 0.
class TcpJob final : public Job {
 public:
  TcpJob(std::vector<Place> places, int rank, std::vector<std::optional<Connection>> connections,
         std::string interface)
      : places_(std::move(places)),
        place_(places_[static_cast<std::size_t>(rank)]),
        connections_(std::move(connections)),
        interface_(std::move(interface)) {}

  const Place& place() const override { return place_; }
  std::string interface() const override { return interface_; }

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
    return {fmt::format("{} cannot be reached any more: {}", RankOnHost(places_[rank]),
                        failure.message)};
  }

  std::vector<Place> places_;
  Place place_;
  std::vector<std::optional<Connection>> connections_;  // by rank
  std::string interface_;
};

// `process` tells two processes of one rank apart from one that comes twice.
std::string Hello(const Rendezvous& rendezvous, const std::string& process) {
  ByteWriter hello;
  hello.Number(static_cast<std::uint64_t>(rendezvous.ranks));
  hello.Number(static_cast<std::uint64_t>(rendezvous.rank));
  hello.Text(HostName());
  hello.Signed(rendezvous.local_rank);
  hello.Text(process);
  return hello.Take();
}

struct Arrival {
  std::uint64_t ranks = 0;
  std::uint64_t rank = 0;
  RankPlacement placement;
  std::string process;
};

std::optional<Arrival> ReadHello(std::string_view bytes) {
  ByteReader hello(bytes);
  Arrival arrival;
  arrival.ranks = hello.Number();
  arrival.rank = hello.Number();
  arrival.placement.host = Printable(hello.Text());
  arrival.placement.local_rank = static_cast<int>(hello.Signed());
  arrival.process = hello.Text();
  if (hello.bad()) return std::nullopt;
  return arrival;
}

std::string WritePlacements(const std::vector<RankPlacement>& ranks) {
  ByteWriter writer;
  writer.Text(kWelcome);
  for (const RankPlacement& rank : ranks) {
    writer.Text(rank.host);
    writer.Signed(rank.local_rank);
  }
  return writer.Take();
}

std::string Answer(std::string_view word, const std::string& reason = "") {
  ByteWriter writer;
  writer.Text(word);
  writer.Text(reason);
  return writer.Take();
}

int FirstPort(const Rendezvous& rendezvous) {
  return rendezvous.port + (rendezvous.port_taken ? 1 : 0);
}

// What of MASTER_ADDR is this machine's: where rank 0 listens. Empty: everywhere.
Attempt<std::string> InterfaceOf(const Rendezvous& rendezvous) {
  const auto addresses = Resolve(rendezvous.address, rendezvous.port);
  if (!addresses) {
    return tl::unexpected(
        Failure{fmt::format("rank 0 cannot look up MASTER_ADDR {}: {}", Quoted(rendezvous.address),
                            addresses.error().message)});
  }
  const std::vector<std::string> own = AllOwnAddresses();
  for (const SocketAddress& address : *addresses) {
    const std::string numerical = address.Numerical();
    // All of 127.0.0.0/8 is the machine's own, though only 127.0.0.1 is listed.
    if (!address.loopback() && std::find(own.begin(), own.end(), numerical) == own.end()) continue;
    // Debian gives a machine's own name to 127.0.1.1, which says nothing about where other machines
    // find that name.
    if (address.loopback() && !rendezvous.one_machine) return "";
    return numerical;
  }
  return tl::unexpected(
      Failure{fmt::format("MASTER_ADDR {} is no address of '{}', where rank 0 runs",
                          Quoted(rendezvous.address), HostName())});
}

Attempt<Listener> OpenListener(const Rendezvous& rendezvous, const std::string& interface) {
  const int first = FirstPort(rendezvous);
  Failure last;
  for (int port = first; port < std::min(first + kPorts, 65536); ++port) {
    auto listener = Listener::Open(interface, port);
    if (listener) return listener;
    last = listener.error();
  }
  return tl::unexpected(Failure{fmt::format(
      "rank 0 cannot listen on any of the {} ports from {}: {}", kPorts, first, last.message)});
}

// Of two jobs with the same secret each has its own.
std::string SecretOfRun(const std::string& secret, const Rendezvous& rendezvous) {
  return AuthenticationCode(secret, rendezvous.run_id);
}

// "ranks 1, 2"; empty: none.
std::string Missing(const std::vector<std::optional<Connection>>& connections) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 1; rank < connections.size(); ++rank) {
    if (!connections[rank]) ranks.push_back(rank);
  }
  if (ranks.empty()) return "";
  constexpr std::size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  if (ranks.size() > kShown) text += fmt::format(" and {} more", ranks.size() - kShown);
  return text;
}

// Rank 0: accepts connections until all ranks have come.
class RendezvousServer {
 public:
  RendezvousServer(const Rendezvous& rendezvous, std::string interface, Listener listener,
                   std::string secret)
      : rendezvous_(rendezvous),
        interface_(std::move(interface)),
        admission_(std::move(listener), std::move(secret)),
        deadline_(steady_clock::now() + rendezvous.timeout),
        connections_(static_cast<std::size_t>(rendezvous.ranks)),
        placements_(connections_.size()),
        processes_(connections_.size()) {
    placements_[0] = {HostName(), rendezvous.local_rank};
  }

  ~RendezvousServer() {
    const std::string strangers = admission_.Strangers();
    if (strangers.empty() || !rendezvous_.note) return;
    rendezvous_.note(
        fmt::format("rank 0 turned away {}, at port {}", strangers, admission_.port()));
  }
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  Attempt<std::unique_ptr<Job>> Run() {
    // A rank that was welcomed and whose connection has ended since comes again.
    do {
      if (auto all = ReceiveAll(); !all) return tl::unexpected(all.error());
    } while (!WelcomeAll());
    return std::make_unique<TcpJob>(PlacesOf(placements_), 0, std::move(connections_), interface_);
  }

 private:
  Attempt<void> ReceiveAll() {
    while (!Missing(connections_).empty()) {
      auto guest = admission_.Next(deadline_);
      if (!guest) return tl::unexpected(guest.error());
      if (!guest->has_value()) {
        return tl::unexpected(
            Failure{fmt::format("rank 0 waited {} s at port {} for {}", rendezvous_.timeout.count(),
                                admission_.port(), Missing(connections_))});
      }
      if (auto taken = Take(std::move(**guest)); !taken) return taken;
    }
    return {};
  }

  Attempt<void> Take(Guest guest) {
    const auto arrival = ReadHello(guest.hello);
    const auto ranks = static_cast<std::uint64_t>(rendezvous_.ranks);
    std::string reason;
    if (!arrival) {
      reason = "a rank is of another version of stepcast than rank 0";
    } else if (arrival->ranks != ranks) {
      reason = fmt::format("rank {} on '{}' was started as one of {}, rank 0 as one of {}",
                           arrival->rank, arrival->placement.host, arrival->ranks, ranks);
    } else if (arrival->rank < 1 || arrival->rank >= ranks ||
               (connections_[arrival->rank] && processes_[arrival->rank] != arrival->process)) {
      reason = fmt::format("two processes were started as rank {}", arrival->rank);
    }
    if (!reason.empty()) {
      (void)guest.Answer(Answer(kRefused, reason));
      return tl::unexpected(Failure{reason});
    }
    if (!guest.Answer(Answer(kHeard))) return {};  // it comes again
    placements_[arrival->rank] = arrival->placement;
    processes_[arrival->rank] = arrival->process;
    connections_[arrival->rank] = std::move(guest.connection);
    welcomed_.erase(arrival->rank);
    return {};
  }

  // Whether all know that all have come. One that does not answer may have given up this
  // connection, while rank 0 was stopped say, and connects again.
  bool WelcomeAll() {
    const std::string welcome = WritePlacements(placements_);
    bool all = true;
    for (std::size_t rank = 1; rank < connections_.size(); ++rank) {
      if (welcomed_.contains(rank)) continue;
      auto& connection = connections_[rank];
      if (connection->Send(welcome, deadline_)) {
        const auto here = connection->Receive(deadline_);
        if (here && *here == kHere) {
          welcomed_.insert(rank);
          continue;
        }
      }
      connection.reset();
      all = false;
    }
    return all;
  }

  const Rendezvous& rendezvous_;
  const std::string interface_;
  Admission admission_;
  const Deadline deadline_;
  std::vector<std::optional<Connection>> connections_;  // by rank
  std::vector<RankPlacement> placements_;
  std::vector<std::string> processes_;
  std::set<std::size_t> welcomed_;
};

Attempt<std::unique_ptr<Job>> Receive(const Rendezvous& rendezvous) {
  const auto interface = InterfaceOf(rendezvous);
  if (!interface) return tl::unexpected(interface.error());
  auto listener = OpenListener(rendezvous, *interface);
  if (!listener) return tl::unexpected(listener.error());
  SharedSecret file(rendezvous.run_id);
  std::string secret = rendezvous.secret;
  if (secret.empty()) {
    auto written = file.Write();
    if (!written) return tl::unexpected(written.error());
    secret = *std::move(written);
  }
  return RendezvousServer(rendezvous, *interface, std::move(*listener),
                          SecretOfRun(secret, rendezvous))
      .Run();
}

// What a rank is told once it is heard.
Attempt<std::unique_ptr<Job>> BeWelcomed(const Rendezvous& rendezvous, Connection connection,
                                         Deadline deadline) {
  const auto welcome = connection.Receive(deadline);
  if (!welcome) {
    return tl::unexpected(Failure{fmt::format("rank 0 at {} ended before all ranks had come: {}",
                                              rendezvous.address, welcome.error().message)});
  }
  const auto ranks = static_cast<std::size_t>(rendezvous.ranks);
  ByteReader reader(*welcome);
  const bool welcomed = reader.Text() == kWelcome;
  std::vector<RankPlacement> placements(ranks);
  for (RankPlacement& rank : placements) {
    rank.host = Printable(reader.Text());
    rank.local_rank = static_cast<int>(reader.Signed());
  }
  if (!welcomed || reader.bad()) {
    return tl::unexpected(Failure{"rank 0 is another version of stepcast"});
  }
  if (auto sent = connection.Send(kHere, deadline); !sent) return tl::unexpected(sent.error());
  std::string interface = connection.OwnAddress();
  std::vector<std::optional<Connection>> connections(ranks);
  connections[0].emplace(std::move(connection));
  return std::make_unique<TcpJob>(PlacesOf(placements), rendezvous.rank, std::move(connections),
                                  std::move(interface));
}

Attempt<std::unique_ptr<Job>> FindRank0(const Rendezvous& rendezvous) {
  const Deadline deadline = steady_clock::now() + rendezvous.timeout;
  const std::string hello = Hello(rendezvous, RandomBytes(16));
  const SharedSecret file(rendezvous.run_id);
  const int first = FirstPort(rendezvous);
  std::string last = "no answer";
  std::string answered;  // counts more than the ports behind that one, where nothing listens
  for (int attempt = 0; steady_clock::now() < deadline; ++attempt) {
    const int port = first + attempt % kPorts;
    if (port > 65535) continue;
    // The usual case: rank 0 is not there yet, and none of the ports is open.
    if (attempt % kPorts == kPorts - 1) std::this_thread::sleep_for(milliseconds(50));
    const Deadline attempt_deadline = std::min(deadline, steady_clock::now() + kConnectTimeout);
    auto connection = Connect(rendezvous.address, port, attempt_deadline);
    if (!connection) {
      if (attempt % kPorts == 0) last = connection.error().message;
      continue;
    }
    // Rank 0 may have written it only now, and another than a job before.
    std::string secret = rendezvous.secret;
    if (secret.empty()) {
      auto read = file.Read();
      if (!read) return tl::unexpected(read.error());
      if (!read->has_value()) {
        answered = "rank 0 has left no secret for this user on this machine";
        continue;
      }
      secret = **std::move(read);
    }
    const auto answer =
        Introduce(*connection, port, SecretOfRun(secret, rendezvous), hello, attempt_deadline);
    if (!answer) {
      // An answer is a better explanation than silence.
      const bool silent = steady_clock::now() >= attempt_deadline;
      if (answered.empty() || !silent) {
        answered = fmt::format("port {}: {}", port, answer.error().message);
      }
      std::this_thread::sleep_for(milliseconds(20));
      continue;
    }
    ByteReader reader(*answer);
    if (reader.Text() == kRefused) return tl::unexpected(Failure{Printable(reader.Text())});
    return BeWelcomed(rendezvous, std::move(*connection), deadline);
  }
  return tl::unexpected(
      Failure{fmt::format("rank {} on '{}' did not find rank 0 at {}, ports from {}, in {} s: {}",
                          rendezvous.rank, HostName(), rendezvous.address, first,
                          rendezvous.timeout.count(), answered.empty() ? last : answered)});
}

}  // namespace

bool IsLoopback(const std::string& address) {
  if (address == "localhost" || address.ends_with(".localhost")) return true;
  if (address != "::1" && !address.starts_with("127.")) return false;
  // Not a name that begins so.
  return address.find_first_not_of("0123456789.:") == std::string::npos;
}

Attempt<std::unique_ptr<Job>> JoinTcp(const Rendezvous& given) {
  Rendezvous rendezvous = given;
  rendezvous.one_machine = given.one_machine || IsLoopback(given.address);
  return rendezvous.rank == 0 ? Receive(rendezvous) : FindRank0(rendezvous);
}

}  // namespace stepcast::runtime
