#include "src/runtime/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/program/description.h"
#include "src/runtime/admission.h"
#include "src/runtime/authentication.h"
#include "src/runtime/byte_stream.h"
#include "src/runtime/connection.h"

namespace stepcast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long rank 0 waits for a cause that counts more before it decides.
constexpr milliseconds kMoment(300);
// How long another rank waits for rank 0's decision before it reports its own cause and ends.
constexpr milliseconds kDecisionTimeout(2000);
// How long the reporting rank stays reachable after rank 0's end, so that the others find it.
constexpr milliseconds kLinger(1000);
constexpr milliseconds kProbe(500);

enum class MessageKind : std::uint8_t { kHeartbeat, kFailed, kInterrupted, kEnd, kBye };

// Why a run may end; what comes first in this list counts most.
enum class Kind : std::uint8_t { kOutOfMemory, kDied, kFailed, kSilent, kHangs, kInterrupted };

struct Cause {
  Kind kind = Kind::kFailed;
  int rank = 0;
  int status = 1;
  std::string sentence;
};

bool CountsMore(const Cause& a, const Cause& b) {
  return a.kind != b.kind ? a.kind < b.kind : a.rank < b.rank;
}

// How far a rank is.
struct Heartbeat {
  Stage stage = Stage::kSettingUp;
  std::uint64_t operations = 0;
  std::uint32_t step = 0;
  program::Index instruction = program::kNone;
};

struct LocalRank {
  Progress progress;
  std::atomic<Stage> stage = Stage::kSettingUp;

  Heartbeat Now() const {
    return {stage.load(), progress.operations.load(), progress.step.load(),
            progress.instruction.load()};
  }
};

std::string Seconds(milliseconds time) {
  if (time.count() % 1000 == 0) return fmt::format("{} s", time.count() / 1000);
  return fmt::format("{} ms", time.count());
}

// The pipe that wakes the process's watch, for signal handlers; -1: none.
std::atomic<int> wake_end = -1;
std::atomic<int> signal_taken = 0;
std::atomic<std::int64_t> signal_time = 0;  // of the first, ns; zero: none
std::atomic<bool> ending = false;           // the process is in BeforeExit

// Common to both kinds of watch: the thread, the local ranks, causes and the end.
class WatchThread : public Watch {
 public:
  WatchThread(std::vector<Place> places, std::vector<int> local, const WatchOptions& options,
              End end)
      : places_(std::move(places)),
        options_(options),
        interval_(std::clamp(options.timeout / 10, milliseconds(20), milliseconds(250))),
        end_(std::move(end)),
        heartbeats_(places_.size()) {
    for (const int rank : local) local_.try_emplace(rank);
    std::array<int, 2> ends{};
    STEPCAST_CHECK(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0, "a pipe can be made");
    wake_read_ = ends[0];
    wake_write_ = ends[1];
  }

  ~WatchThread() override {
    Stop();
    ::close(wake_read_);
    ::close(wake_write_);
  }

  Progress& progress(int rank) override { return local_.at(rank).progress; }
  void SetStage(int rank, Stage stage) override { local_.at(rank).stage = stage; }
  void SetPrograms(std::vector<const program::Program*> programs) override {
    STEPCAST_CHECK(programs.size() == places_.size() && !programs_known_, "programs of all ranks");
    programs_ = std::move(programs);
    programs_known_ = true;
  }

  void Tell(int rank, const Failure& failure) override {
    {
      const std::lock_guard lock(mutex_);
      failures_.push_back({.kind = failure.out_of_memory ? Kind::kOutOfMemory : Kind::kFailed,
                           .rank = rank,
                           .status = 1,
                           .sentence = Named(rank, failure.message)});
    }
    Wake();
  }

  static bool Notice(int signal) {
    if (ending) return true;
    const int pipe = wake_end.load();
    if (pipe < 0) return false;
    const std::int64_t now = steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    std::int64_t first = 0;
    if (!signal_time.compare_exchange_strong(first, now)) {
      // Often the same is sent twice, to the process and to its group, and another thread takes it.
      return now - first < kDecisionTimeout / std::chrono::nanoseconds(1);
    }
    signal_taken = signal;
    const int error = errno;  // a handler's, which the interrupted code must not see
    const char byte = 's';
    const bool written = ::write(pipe, &byte, 1) == 1;
    errno = error;
    return written;
  }

 protected:
  void Begin() {
    progressed_ = steady_clock::now();
    signal_taken = 0;
    signal_time = 0;
    wake_end = wake_write_;
    thread_ = std::thread([this] { Run(); });
  }

  void Stop() {
    if (!thread_.joinable()) return;
    wake_end = -1;
    stopping_ = true;
    Wake();
    thread_.join();
  }

  // What the two kinds of watch do differently; all in the watch's thread.
  virtual void Listen(std::vector<pollfd>& entries) = 0;
  virtual void ReceiveMessages() = 0;
  virtual void SendHeartbeats() = 0;  // once an interval
  virtual void Consider(Cause cause) = 0;
  virtual void Leave() = 0;                 // the run went well
  virtual void BeforeExit(int status) = 0;  // after the sentence is printed
  virtual Deadline NextDecision() const = 0;
  virtual void Decide() = 0;

  [[noreturn]] void EndProcess(int status, const std::string& sentence) {
    ending = true;
    end_(status, sentence);
    BeforeExit(status);
    ::_exit(status);
  }

  const Place& place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }

  std::string RankOnHost(int rank) const {
    return fmt::format("rank {} on '{}'", rank, place(rank).host);
  }

  // Failures of the executor name their rank, but its host only if there are several.
  std::string Named(int rank, const std::string& message) const {
    const std::string plain = fmt::format("rank {}", rank);
    const std::string on_host = fmt::format("{} on {}", plain, place(rank).host);
    for (const std::string& name : {RankOnHost(rank), on_host, plain}) {
      if (message.starts_with(name + ":") || message.starts_with(name + ",")) {
        return RankOnHost(rank) + message.substr(name.size());
      }
    }
    return fmt::format("{}: {}", RankOnHost(rank), message);
  }

  // Steps count from 1 here, warm-up included, as in the executor's own failures.
  std::string Doing(int rank) const {
    const Heartbeat& heartbeat = heartbeats_[static_cast<std::size_t>(rank)];
    const program::Program* const program =
        programs_known_ ? programs_[static_cast<std::size_t>(rank)] : nullptr;
    switch (heartbeat.stage) {
      case Stage::kSettingUp:
        return "it was setting up";
      case Stage::kReporting:
        return "it was gathering the results";
      case Stage::kForecasting:
        return "it was forecasting";
      case Stage::kRunning:
        break;
    }
    if (program != nullptr && heartbeat.instruction == program::kNone)
      return "it was in the prologue";
    if (program == nullptr || heartbeat.instruction >= program->step.size()) {
      return fmt::format("it was between operations of step {}", heartbeat.step + 1);
    }
    return fmt::format("it was at {} in step {}",
                       program::Describe(*program, program->step[heartbeat.instruction]),
                       heartbeat.step + 1);
  }

  void TakeLocalHeartbeats() {
    for (const auto& [rank, state] : local_) TakeHeartbeat(rank, state.Now());
  }

  void TakeHeartbeat(int rank, const Heartbeat& heartbeat) {
    Heartbeat& known = heartbeats_[static_cast<std::size_t>(rank)];
    if (known.operations != heartbeat.operations || known.stage != heartbeat.stage) {
      progressed_ = steady_clock::now();
    }
    known = heartbeat;
  }

  void CheckForHang() {
    if (steady_clock::now() - progressed_ < options_.timeout) return;
    // What is left when all have run takes as long as it takes, writing a long trace, say; and so
    // does a forecast.
    if (std::all_of(heartbeats_.begin(), heartbeats_.end(), [](const Heartbeat& heartbeat) {
          return heartbeat.stage >= Stage::kReporting;
        })) {
      return;
    }
    // The rank that has done least is what the others wait for.
    int behind = 0;
    for (int rank = 1; rank < static_cast<int>(heartbeats_.size()); ++rank) {
      const Heartbeat& own = heartbeats_[static_cast<std::size_t>(rank)];
      const Heartbeat& least = heartbeats_[static_cast<std::size_t>(behind)];
      if (std::pair(own.stage, own.operations) < std::pair(least.stage, least.operations)) {
        behind = rank;
      }
    }
    Consider({.kind = Kind::kHangs,
              .rank = behind,
              .sentence = fmt::format("no operation has finished for {}: {} is {}; {}",
                                      Seconds(options_.timeout), RankOnHost(behind),
                                      heartbeats_.size() == 1 ? "alone" : "the furthest behind",
                                      Doing(behind))});
  }

  // Whether this process itself did not run for a while that ended just now (SIGSTOP): what it
  // finds of the others then is its own doing, and they have spoken about it.
  bool WasStopped() const { return steady_clock::now() < woken_ + kDecisionTimeout; }
  // How long the other ranks go without a heartbeat of this one before they end.
  virtual milliseconds Silence() const = 0;

  const std::map<int, LocalRank>& local() const { return local_; }
  const WatchOptions& options() const { return options_; }
  milliseconds interval() const { return interval_; }
  int ranks() const { return static_cast<int>(places_.size()); }

 private:
  void Wake() {
    const char byte = 'w';
    [[maybe_unused]] const ssize_t written = ::write(wake_write_, &byte, 1);
  }

  void Run() {
    Deadline next_heartbeat = steady_clock::now();
    std::vector<pollfd> entries;
    Deadline running = next_heartbeat;
    for (;;) {
      const auto now = steady_clock::now();
      if (now >= next_heartbeat) {
        TakeLocalHeartbeats();
        SendHeartbeats();
        next_heartbeat = now + interval_;
      }
      if (now >= NextDecision()) Decide();
      entries.assign(1, {.fd = wake_read_, .events = POLLIN, .revents = 0});
      Listen(entries);
      const auto pause =
          std::chrono::ceil<milliseconds>(std::min(next_heartbeat, NextDecision()) - now);
      ::poll(entries.data(), entries.size(),
             static_cast<int>(std::clamp<std::int64_t>(pause.count(), 0, 1000)));
      // Somewhat less than the others' timeout: they count from an earlier heartbeat.
      const auto awake = steady_clock::now();
      if (awake - std::exchange(running, awake) >= Silence() - 2 * interval_) woken_ = awake;
      std::array<char, 64> bytes;
      while (::read(wake_read_, bytes.data(), bytes.size()) > 0) {
      }
      if (stopping_) {
        Leave();
        return;
      }
      if (const int signal = signal_taken; signal != 0 && !std::exchange(interrupted_, true)) {
        Consider({.kind = Kind::kInterrupted,
                  .rank = local_.begin()->first,
                  .status = 128 + signal,
                  .sentence = "interrupted"});
      }
      std::vector<Cause> failures;
      {
        const std::lock_guard lock(mutex_);
        failures.swap(failures_);
      }
      for (Cause& failure : failures) Consider(std::move(failure));
      ReceiveMessages();
    }
  }

  const std::vector<Place> places_;  // all ranks
  const WatchOptions options_;
  const milliseconds interval_;
  const End end_;
  std::map<int, LocalRank> local_;                 // by rank; its keys never change
  std::vector<const program::Program*> programs_;  // by rank; not to be read before it is known
  std::atomic<bool> programs_known_ = false;
  int wake_read_ = -1;
  int wake_write_ = -1;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::vector<Cause> failures_;  // guarded by mutex_

  // Of the watch's thread.
  std::vector<Heartbeat> heartbeats_;  // by rank
  Deadline progressed_;
  Deadline woken_;  // when this process went on after it had stood still
  bool interrupted_ = false;

  std::thread thread_;
};

// Collects causes until it is decided with which the run ends.
class Verdict {
 public:
  void Consider(Cause cause) {
    if (!cause_) decided_at_ = steady_clock::now() + kMoment;
    if (cause_ && cause_->kind == Kind::kDied && cause.kind == Kind::kDied) {
      AlsoDied(std::move(cause));
    } else if (!cause_ || CountsMore(cause, *cause_)) {
      cause_ = std::move(cause);
    }
  }
  bool open() const { return cause_.has_value(); }
  Deadline decided_at() const { return decided_at_; }
  const Cause& cause() const { return *cause_; }

 private:
  // Open MPI ends ranks whose neighbour died in the same moment; which was the first does not show.
  void AlsoDied(Cause cause) {
    constexpr int kNamed = 4;
    if (++died_ > kNamed) return;
    if (cause.rank < cause_->rank) std::swap(cause, *cause_);
    cause_->sentence += "; " + cause.sentence;
  }

  std::optional<Cause> cause_;
  int died_ = 1;
  Deadline decided_at_ = kNever;
};

class ThreadWatch final : public WatchThread {
 public:
  ThreadWatch(const std::vector<Place>& places, const std::vector<int>& ranks,
              const WatchOptions& options, End end)
      : WatchThread(places, ranks, options, std::move(end)) {
    Begin();
  }
  ~ThreadWatch() override { Stop(); }
  void Finish() override { Stop(); }

 private:
  void Listen(std::vector<pollfd>&) override {}
  void ReceiveMessages() override {}
  void SendHeartbeats() override { CheckForHang(); }
  void Consider(Cause cause) override { verdict_.Consider(std::move(cause)); }
  void Leave() override {}
  void BeforeExit(int) override {}
  milliseconds Silence() const override {
    return std::chrono::hours(24 * 365);
  }  // no other process
  Deadline NextDecision() const override { return verdict_.decided_at(); }
  void Decide() override { EndProcess(verdict_.cause().status, verdict_.cause().sentence); }

  Verdict verdict_;
};

// Where a rank's watch listens.
struct Endpoint {
  std::string host;
  int port = 0;
  std::vector<std::string> addresses;
};

void Write(ByteWriter& writer, const Endpoint& endpoint) {
  writer.Text(endpoint.host);
  writer.Number(static_cast<std::uint64_t>(endpoint.port));
  writer.Number(endpoint.addresses.size());
  for (const std::string& address : endpoint.addresses) writer.Text(address);
}

Endpoint ReadEndpoint(ByteReader& reader) {
  Endpoint endpoint;
  endpoint.host = Printable(reader.Text());
  endpoint.port = static_cast<int>(reader.Number() & 0xFFFF);
  endpoint.addresses.resize(reader.Count());
  for (std::string& address : endpoint.addresses) address = reader.Text();
  return endpoint;
}

Attempt<Connection> ConnectTo(const Endpoint& endpoint, const std::string& own_host,
                              milliseconds timeout) {
  std::vector<std::string> addresses = endpoint.addresses;
  // Loopback leads to another machine's rank only by mistake; on one machine it is the surest.
  const auto loopback = [](const std::string& address) { return address.starts_with("127."); };
  if (endpoint.host == own_host) {
    std::stable_partition(addresses.begin(), addresses.end(), loopback);
  } else {
    std::erase_if(addresses, loopback);
  }
  Failure last{"it has no address"};
  for (const std::string& address : addresses) {
    auto connection = Connect(address, endpoint.port, steady_clock::now() + timeout);
    if (connection) return connection;
    last = {fmt::format("{}:{}: {}", address, endpoint.port, connection.error().message)};
  }
  return tl::unexpected(last);
}

std::string ToBytes(MessageKind kind) {
  ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(kind));
  return writer.Take();
}

std::string ToBytes(const Heartbeat& heartbeat) {
  ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(MessageKind::kHeartbeat));
  writer.Number(static_cast<std::uint64_t>(heartbeat.stage));
  writer.Number(heartbeat.operations);
  writer.Number(heartbeat.step);
  writer.Number(heartbeat.instruction);
  return writer.Take();
}

Heartbeat ReadHeartbeat(ByteReader& reader) {
  Heartbeat heartbeat;
  heartbeat.stage = static_cast<Stage>(
      std::min(reader.Number(), static_cast<std::uint64_t>(Stage::kForecasting)));
  heartbeat.operations = reader.Number();
  heartbeat.step = static_cast<std::uint32_t>(reader.Number());
  heartbeat.instruction = static_cast<program::Index>(reader.Number());
  return heartbeat;
}

std::string ToBytes(const Cause& cause) {
  ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(
      cause.kind == Kind::kInterrupted ? MessageKind::kInterrupted : MessageKind::kFailed));
  writer.Number(static_cast<std::uint64_t>(cause.kind));
  writer.Number(static_cast<std::uint64_t>(cause.status));
  writer.Text(cause.sentence);
  return writer.Take();
}

// A run that is ended by another rank has failed, whatever status that rank sends.
int FailureStatus(std::uint64_t status) {
  return static_cast<int>(std::clamp<std::uint64_t>(status, 1, 255));
}

Cause ReadCause(ByteReader& reader, int rank) {
  Cause cause;
  cause.rank = rank;
  cause.kind =
      static_cast<Kind>(std::min(reader.Number(), static_cast<std::uint64_t>(Kind::kInterrupted)));
  cause.status = FailureStatus(reader.Number());
  cause.sentence = Printable(reader.Text());
  return cause;
}

std::string ToBytesEnd(int status) {
  ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(MessageKind::kEnd));
  writer.Number(static_cast<std::uint64_t>(status));
  return writer.Take();
}

// A neighbour at the other end of a connection.
struct Neighbour {
  Connection connection;
  Deadline heard;
  bool gone = false;  // sent kBye, or was lost and is accounted for
};

class ProcessWatch : public WatchThread {
 public:
  ProcessWatch(const std::vector<Place>& places, int rank, std::vector<Endpoint> endpoints,
               Listener listener, const WatchOptions& options, End end)
      : WatchThread(places, {rank}, options, std::move(end)),
        rank_(rank),
        endpoints_(std::move(endpoints)),
        listener_(std::move(listener)) {
    // Not all of it, so that all sides have ended by then.
    const milliseconds timeout = options.timeout;
    silence_ = timeout >= milliseconds(10'000) ? timeout - milliseconds(2'000) : timeout * 4 / 5;
  }

 protected:
  void Listen(std::vector<pollfd>& entries) override {
    for (const auto& [rank, neighbour] : neighbours_) {
      if (neighbour.gone) continue;
      const bool more = neighbour.connection.queued() > 0;
      entries.push_back({.fd = neighbour.connection.descriptor(),
                         .events = static_cast<short>(more ? POLLIN | POLLOUT : POLLIN),
                         .revents = 0});
    }
  }

  void ReceiveMessages() override {
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
      Lost(rank,
           fmt::format("{} has not been heard of for {}", RankOnHost(rank), Seconds(silence_)),
           Kind::kSilent);
    }
  }

  void Send(Neighbour& neighbour, std::string_view message) {
    // Heartbeats that do not fit into the socket are dropped: only the latest one counts.
    constexpr std::size_t kEnough = 1 << 14;
    if (!neighbour.gone && neighbour.connection.queued() < kEnough) {
      (void)neighbour.connection.Queue(message);
    }
  }

  milliseconds Silence() const override { return silence_; }

  void SendHeartbeats() override {
    const std::string heartbeat = ToBytes(local().at(rank_).Now());
    for (auto& [rank, neighbour] : neighbours_) Send(neighbour, heartbeat);
    if (rank_ == 0) CheckForHang();
  }

  // A socket that is closed before all that came was read takes back what was written last, so
  // both sides read up to the other's bye.
  void Leave() override {
    for (auto& [rank, neighbour] : neighbours_) Send(neighbour, ToBytes(MessageKind::kBye));
    Drain(kDecisionTimeout);
  }

  void Drain(milliseconds timeout) {
    const Deadline deadline = steady_clock::now() + timeout;
    for (auto& [rank, neighbour] : neighbours_) {
      while (!neighbour.gone) {
        const auto message = neighbour.connection.Receive(deadline);
        ByteReader reader(message ? std::string_view(*message) : std::string_view());
        neighbour.gone = !message || static_cast<MessageKind>(reader.Number()) == MessageKind::kBye;
      }
    }
  }

  void Meet(int rank, Connection connection) {
    neighbours_.emplace(rank, Neighbour{std::move(connection), steady_clock::now()});
  }

  virtual void OnMessage(int rank, MessageKind kind, ByteReader& reader) = 0;
  virtual void Lost(int rank, const std::string& sentence, Kind kind) = 0;

  const int rank_;
  const std::vector<Endpoint> endpoints_;  // by rank
  Listener listener_;                      // stays open: other ranks probe it
  milliseconds silence_;
  std::map<int, Neighbour> neighbours_;  // by rank
};

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

std::unique_ptr<Watch> Watch::OverThreads(const std::vector<Place>& places,
                                          const WatchOptions& options, End end) {
  std::vector<int> ranks;
  for (const Place& place : places) ranks.push_back(place.rank);
  return std::make_unique<ThreadWatch>(places, ranks, options, std::move(end));
}

Attempt<std::unique_ptr<Watch>> Watch::OverJob(Job& job, const WatchOptions& options, End end) {
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

void Watch::Fail(int rank, const Failure& failure) {
  Tell(rank, failure);
  for (;;) ::pause();  // the watch's thread ends the process
}

bool Watch::TakeSignal(int signal) { return WatchThread::Notice(signal); }

}  // namespace stepcast::runtime
