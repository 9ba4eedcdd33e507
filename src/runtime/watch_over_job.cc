// Watch::OverJob: how the ranks' watches meet, and what rank 0's and the others' do.
#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/runtime/admission.h"
#include "src/runtime/authentication.h"
#include "src/runtime/process_watch.h"
#include "src/runtime/watch.h"

namespace stepcast::runtime {
namespace watching {
namespace {

// How long the reporting rank stays reachable after rank 0's end, so that the others find it.
constexpr milliseconds kLinger(1000);
constexpr milliseconds kProbe(500);

class Rank0Watch final : public ProcessWatch {
 public:
  Rank0Watch(const std::vector<Place>& places, std::vector<Endpoint> endpoints, Listener listener,
             std::map<int, Connection> others, const WatchOptions& options, End end)
      : ProcessWatch(places, 0, std::move(endpoints), std::move(listener), options,
                     std::move(end)) {
    for (auto& [rank, connection] : others) Meet(rank, std::move(connection));
    Begin();
  }
  ~Rank0Watch() override { Stop(); }
  void Finish() override { Stop(); }

 private:
  void OnMessage(int rank, MessageKind kind, ByteReader& reader) override {
    if (kind == MessageKind::kHeartbeat) TakeHeartbeat(rank, ReadHeartbeat(reader));
    if (kind == MessageKind::kFailed || kind == MessageKind::kInterrupted)
      Consider(ReadCause(reader, rank));
  }
  void Lost(int rank, const std::string& sentence, Kind kind) override {
    Consider({.kind = kind, .rank = rank, .sentence = sentence + "; " + Doing(rank)});
  }
  void Consider(Cause cause) override { verdict_.Consider(std::move(cause)); }
  Deadline NextDecision() const override { return verdict_.decided_at(); }
  void Decide() override {
    for (auto& [rank, neighbour] : neighbours_) {
      if (!neighbour.gone) {
        (void)neighbour.connection.Queue(ToBytesEnd(verdict_.cause().status));
      }
    }
    EndProcess(verdict_.cause().status, verdict_.cause().sentence);
  }
  void BeforeExit(int) override { Drain(kLinger); }

  Verdict verdict_;
};

class OtherRankWatch final : public ProcessWatch {
 public:
  OtherRankWatch(const std::vector<Place>& places, int rank, std::vector<Endpoint> endpoints,
                 Listener listener, Connection to_rank_0, const WatchOptions& options, End end)
      : ProcessWatch(places, rank, std::move(endpoints), std::move(listener), options,
                     std::move(end)) {
    Meet(0, std::move(to_rank_0));
    Begin();
  }
  ~OtherRankWatch() override { Stop(); }
  void Finish() override { Stop(); }

 private:
  void OnMessage(int rank, MessageKind kind, ByteReader& reader) override {
    if (kind == MessageKind::kHeartbeat) TakeHeartbeat(rank, ReadHeartbeat(reader));
    if (kind == MessageKind::kEnd) EndProcess(FailureStatus(reader.Number()), "");
  }

  // Rank 0 decides; if it does not in time, this rank does.
  void Consider(Cause cause) override {
    if (own_ && !CountsMore(cause, *own_)) return;
    if (!own_) decision_at_ = steady_clock::now() + kDecisionTimeout;
    Neighbour& rank_0 = neighbours_.at(0);
    if (!rank_0.gone) (void)rank_0.connection.Queue(ToBytes(cause));
    own_ = std::move(cause);
  }
  Deadline NextDecision() const override { return decision_at_; }
  void Decide() override { EndProcess(own_->status, own_->sentence); }

  void Lost(int rank, const std::string& sentence, Kind) override {
    if (ALowerRankLives()) EndProcess(1, "");
    reports_ = true;
    EndProcess(1, sentence + "; " + Doing(rank));
  }

  // Keeps the endpoint open, so that higher ranks find that this rank reports.
  void BeforeExit(int) override {
    if (reports_ && rank_ + 1 < ranks()) std::this_thread::sleep_for(kLinger);
  }

  bool ALowerRankLives() const {
    constexpr int kAtOnce = 64;
    for (int first = 1; first < rank_; first += kAtOnce) {
      std::vector<std::future<bool>> probes;
      for (int rank = first; rank < std::min(first + kAtOnce, rank_); ++rank) {
        probes.push_back(std::async(std::launch::async, [this, rank] {
          const auto& endpoint = endpoints_[static_cast<std::size_t>(rank)];
          return ConnectTo(endpoint, place(rank_).host, kProbe).has_value();
        }));
      }
      bool lives = false;
      for (std::future<bool>& probe : probes) lives = probe.get() || lives;
      if (lives) return true;
    }
    return false;
  }

  std::optional<Cause> own_;
  Deadline decision_at_ = kNever;
  bool reports_ = false;
};

// At rank 0: the connections of all other ranks.
Attempt<std::map<int, Connection>> ReceiveAll(Admission& admission, int ranks,
                                              milliseconds timeout) {
  const Deadline deadline = steady_clock::now() + timeout;
  std::map<int, Connection> others;
  while (static_cast<int>(others.size()) + 1 < ranks) {
    auto guest = admission.Next(deadline);
    if (!guest) return tl::unexpected(guest.error());
    if (!guest->has_value()) {
      int missing = 1;
      while (others.contains(missing)) ++missing;
      return tl::unexpected(Failure{fmt::format("rank {} did not connect to rank 0's watch in {}",
                                                missing, Seconds(timeout))});
    }
    ByteReader reader((*guest)->hello);
    const std::uint64_t rank = reader.Number();
    if (reader.bad() || rank < 1 || rank >= static_cast<std::uint64_t>(ranks)) continue;
    if (!(*guest)->Answer("")) continue;  // it comes again
    others.insert_or_assign(static_cast<int>(rank), std::move((*guest)->connection));
  }
  return others;
}

// At another rank.
Attempt<Connection> ConnectToRank0(const Endpoint& rank_0, const Place& own,
                                   std::string_view secret) {
  auto connection = ConnectTo(rank_0, own.host, kDecisionTimeout);
  if (!connection) return connection;
  ByteWriter hello;
  hello.Number(static_cast<std::uint64_t>(own.rank));
  const auto answer = Introduce(*connection, rank_0.port, secret, hello.Take(),
                                steady_clock::now() + kDecisionTimeout);
  if (!answer) return tl::unexpected(answer.error());
  return connection;
}

}  // namespace
}  // namespace watching

Attempt<std::unique_ptr<Watch>> Watch::OverJob(Job& job, const WatchOptions& options, End end) {
  using namespace watching;  // NOLINT
  constexpr milliseconds kMeeting(20'000);
  const Place& own = job.place();
  const std::string interface = job.interface();
  auto listener = Listener::Open(interface, 0);
  if (!listener) return tl::unexpected(listener.error());
  ByteWriter endpoint;
  Write(endpoint, {own.host, listener->port(),
                   interface.empty() ? OwnAddresses() : std::vector<std::string>{interface}});
  const auto endpoint_bytes = job.Gather(endpoint.Take());
  if (!endpoint_bytes) return tl::unexpected(endpoint_bytes.error());
  ByteWriter book;
  if (own.rank == 0) {
    book.Text(RandomBytes(32));  // the secret of the watch
    for (const std::string& bytes : *endpoint_bytes) book.Text(bytes);
  }
  const auto shared = job.Broadcast(book.Take());
  if (!shared) return tl::unexpected(shared.error());
  ByteReader reader(*shared);
  const std::string secret = reader.Text();
  std::vector<Endpoint> endpoints;
  std::vector<Place> places;
  for (int rank = 0; rank < own.ranks; ++rank) {
    const std::string bytes = reader.Text();
    ByteReader of_rank(bytes);
    endpoints.push_back(ReadEndpoint(of_rank));
    places.push_back({.rank = rank, .ranks = own.ranks, .host = endpoints.back().host});
  }
  places[static_cast<std::size_t>(own.rank)] = own;

  if (own.rank == 0) {
    Admission admission(std::move(*listener), secret);
    auto others = ReceiveAll(admission, own.ranks, kMeeting);
    if (const std::string strangers = admission.Strangers(); options.note && !strangers.empty()) {
      options.note(fmt::format("rank 0's watch turned away {}", strangers));
    }
    if (!others) return tl::unexpected(others.error());
    return std::make_unique<Rank0Watch>(places, std::move(endpoints), admission.TakeListener(),
                                        std::move(*others), options, std::move(end));
  }
  const Deadline deadline = steady_clock::now() + kMeeting;
  for (;;) {
    auto connection = ConnectToRank0(endpoints[0], own, secret);
    if (connection) {
      return std::make_unique<OtherRankWatch>(places, own.rank, std::move(endpoints),
                                              std::move(*listener), std::move(*connection), options,
                                              std::move(end));
    }
    if (steady_clock::now() >= deadline) {
      return tl::unexpected(Failure{
          fmt::format("rank {} on '{}' cannot reach rank 0 on '{}', which watches over the run: {}",
                      own.rank, own.host, endpoints[0].host, connection.error().message)});
    }
    std::this_thread::sleep_for(kProbe);
  }
}

}  // namespace stepcast::runtime
