#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "src/messaging/byte_stream.h"
#include "src/program/program.h"
#include "src/runtime/watch.h"

namespace stepcast::runtime::watching {

// Why a run ends: the most important cause among those that ranks report.

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();

// The kinds of causes, highest priority first.
enum class Kind : std::uint8_t { kOutOfMemory, kDied, kFailed, kSilent, kHangs, kInterrupted };

struct Cause {
  Kind kind = Kind::kFailed;
  int rank = 0;
  int status = 1;
  std::string sentence;
};

bool CountsMore(const Cause& a, const Cause& b);

// Collects causes until one is chosen.
class Verdict {
 public:
  void Consider(Cause cause);
  bool open() const { return cause_.has_value(); }
  Deadline decided_at() const { return decided_at_; }
  // Returns the chosen cause. open() must return true.
  const Cause& cause() const { return *cause_; }

 private:
  // Records that another rank died too. If a rank dies, Open MPI ends other ranks at the same time,
  // so it is unknown which rank died first.
  void AlsoDied(Cause cause);

  std::optional<Cause> cause_;
  int died_ = 1;
  Deadline decided_at_ = kNever;
};

// The messages between the watches of ranks in separate processes. Received data is not trusted:
// kinds and statuses are clamped to their ranges, and unprintable characters of text are replaced.

enum class MessageKind : std::uint8_t { kHeartbeat, kFailed, kInterrupted, kEnd, kBye };

// The progress of a rank, which it sends to rank 0.
struct Heartbeat {
  Stage stage = Stage::kSettingUp;
  std::uint64_t operations = 0;
  std::uint32_t step = 0;
  program::Index instruction = program::kNone;
};

// Returns a message that contains only its kind.
std::string ToBytes(MessageKind kind);
std::string ToBytes(const Heartbeat& heartbeat);
Heartbeat ReadHeartbeat(messaging::ByteReader& reader);
std::string ToBytes(const Cause& cause);
// Returns the exit status for a run that another rank ended. The status is never 0, even if the
// other rank sends 0.
int FailureStatus(std::uint64_t status);
Cause ReadCause(messaging::ByteReader& reader, int rank);
std::string ToBytesEnd(int status);

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The time for which other ranks wait for rank 0's decision. After this time, a rank reports its
// own cause and ends.
inline constexpr milliseconds kDecisionTimeout(2000);

std::string Seconds(milliseconds time);  // "60 s", "250 ms"

// The watch's state of a rank of this process.
struct LocalRank {
  Progress progress;
  std::atomic<Stage> stage = Stage::kSettingUp;

  Heartbeat Now() const {
    return {stage.load(), progress.operations.load(), progress.step.load(),
            progress.instruction.load()};
  }
};

// The common base class of watches: the thread, the local ranks, the causes, and the code that ends
// the run.
class WatchThread : public Watch {
 public:
  WatchThread(std::vector<Place> places, const std::vector<int>& local, const WatchOptions& options,
              End end);
  ~WatchThread() override;

  Progress& progress(int rank) override { return local_.at(rank).progress; }
  void SetStage(int rank, Stage stage) override { local_.at(rank).stage = stage; }
  void SetPrograms(std::vector<const program::Program*> programs) override;
  void Tell(int rank, const Failure& failure) override;

  static bool Notice(int signal);  // Watch::TakeSignal

 protected:
  // Starts the thread, which calls methods of the derived class. A derived class must therefore
  // call Begin at the end of its constructor and Stop in its destructor.
  void Begin();
  void Stop();

  // Each kind of watch implements these functions, which the watch's thread calls.
  virtual void ReceiveMessages() = 0;
  virtual void SendHeartbeats() = 0;  // once per interval
  virtual void Consider(Cause cause) = 0;
  virtual void Leave() = 0;                 // the run succeeded
  virtual void BeforeExit(int status) = 0;  // called after the sentence is printed
  virtual Deadline NextDecision() const = 0;
  virtual void Decide() = 0;

  [[noreturn]] void EndProcess(int status, const std::string& sentence);

  const Place& place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }

  std::string RankOnHost(int rank) const {
    return fmt::format("rank {} on '{}'", rank, place(rank).host);
  }

  // Returns a message of the executor. If there are several hosts, the result includes the rank's
  // host.
  std::string Named(int rank, const std::string& message) const;
  // Returns a description of a rank's current activity. Steps are counted from 1, including warm-up
  // steps, as in the executor's failures.
  std::string Doing(int rank) const;

  void TakeLocalHeartbeats() {
    for (const auto& [rank, state] : local_) TakeHeartbeat(rank, state.Now());
  }

  void TakeHeartbeat(int rank, const Heartbeat& heartbeat);
  void CheckForHang();

  // Returns whether this process was stopped (SIGSTOP) and has just continued. Heartbeats of other
  // ranks are then missing because of this process, and the other ranks have reported this process.
  bool WasStopped() const { return steady_clock::now() < woken_ + kDecisionTimeout; }
  // Returns the time without heartbeats from a rank after which other ranks end.
  virtual milliseconds Silence() const = 0;

  const std::map<int, LocalRank>& local() const { return local_; }
  const WatchOptions& options() const { return options_; }
  milliseconds interval() const { return interval_; }
  int ranks() const { return static_cast<int>(places_.size()); }

 private:
  void Wake();
  void Run();

  const std::vector<Place> places_;  // all ranks
  const WatchOptions options_;
  const milliseconds interval_;
  const End end_;
  std::map<int, LocalRank> local_;                 // [rank]; the set of keys does not change
  std::vector<const program::Program*> programs_;  // [rank]; valid if programs_known_ is true
  std::atomic<bool> programs_known_ = false;
  int wake_read_ = -1;
  int wake_write_ = -1;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::vector<Cause> failures_;  // guarded by mutex_

  // Members that only the watch's thread uses.
  std::vector<Heartbeat> heartbeats_;  // [rank]
  Deadline progressed_;
  Deadline woken_;  // when this process continued after a stop
  bool interrupted_ = false;

  std::thread thread_;
};

}  // namespace stepcast::runtime::watching
