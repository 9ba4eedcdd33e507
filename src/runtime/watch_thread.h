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

// Why a run ends: what ranks report, and which of it counts.

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();

// Why a run may end; what comes first in this list counts most.
enum class Kind : std::uint8_t { kOutOfMemory, kDied, kFailed, kSilent, kHangs, kInterrupted };

struct Cause {
  Kind kind = Kind::kFailed;
  int rank = 0;
  int status = 1;
  std::string sentence;
};

bool CountsMore(const Cause& a, const Cause& b);

// Collects causes until it is decided with which the run ends.
class Verdict {
 public:
  void Consider(Cause cause);
  bool open() const { return cause_.has_value(); }
  Deadline decided_at() const { return decided_at_; }
  // Requires open().
  const Cause& cause() const { return *cause_; }

 private:
  // Open MPI ends ranks whose neighbour died in the same moment; which was the first does not show.
  void AlsoDied(Cause cause);

  std::optional<Cause> cause_;
  int died_ = 1;
  Deadline decided_at_ = kNever;
};

// What the watches of ranks in processes of their own tell each other. What is read came from
// outside: kinds and statuses are brought into their ranges, texts made printable.

enum class MessageKind : std::uint8_t { kHeartbeat, kFailed, kInterrupted, kEnd, kBye };

// How far a rank is.
struct Heartbeat {
  Stage stage = Stage::kSettingUp;
  std::uint64_t operations = 0;
  std::uint32_t step = 0;
  program::Index instruction = program::kNone;
};

// A message that says no more than its kind.
std::string ToBytes(MessageKind kind);
std::string ToBytes(const Heartbeat& heartbeat);
Heartbeat ReadHeartbeat(messaging::ByteReader& reader);
std::string ToBytes(const Cause& cause);
// A run that is ended by another rank has failed, whatever status that rank sends.
int FailureStatus(std::uint64_t status);
Cause ReadCause(messaging::ByteReader& reader, int rank);
std::string ToBytesEnd(int status);

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long another rank waits for rank 0's decision before it reports its own cause and ends.
inline constexpr milliseconds kDecisionTimeout(2000);

std::string Seconds(milliseconds time);  // "60 s", "250 ms"

// A rank of this process.
struct LocalRank {
  Progress progress;
  std::atomic<Stage> stage = Stage::kSettingUp;

  Heartbeat Now() const {
    return {stage.load(), progress.operations.load(), progress.step.load(),
            progress.instruction.load()};
  }
};

// Common to all watches: the thread, the local ranks, causes and the end.
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
  // The derived class begins when it is made and stops before it goes: the thread calls it.
  void Begin();
  void Stop();

  // What the watches do differently; all in the watch's thread.
  virtual void ReceiveMessages() = 0;
  virtual void SendHeartbeats() = 0;  // once an interval
  virtual void Consider(Cause cause) = 0;
  virtual void Leave() = 0;                 // the run went well
  virtual void BeforeExit(int status) = 0;  // after the sentence is printed
  virtual Deadline NextDecision() const = 0;
  virtual void Decide() = 0;

  [[noreturn]] void EndProcess(int status, const std::string& sentence);

  const Place& place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }

  std::string RankOnHost(int rank) const {
    return fmt::format("rank {} on '{}'", rank, place(rank).host);
  }

  // Failures of the executor name their rank, but its host only if there are several.
  std::string Named(int rank, const std::string& message) const;
  // Steps count from 1 here, warm-up included, as in the executor's own failures.
  std::string Doing(int rank) const;

  void TakeLocalHeartbeats() {
    for (const auto& [rank, state] : local_) TakeHeartbeat(rank, state.Now());
  }

  void TakeHeartbeat(int rank, const Heartbeat& heartbeat);
  void CheckForHang();

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
  void Wake();
  void Run();

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

}  // namespace stepcast::runtime::watching
