#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/messaging/mailbox.h"
#include "src/program/program.h"
#include "src/runtime/device.h"
#include "src/runtime/executor.h"
#include "src/runtime/job.h"

// Watches a run from a separate thread. If a rank dies, hangs, fails or is interrupted, the run
// ends on all ranks with one sentence about the reason. Ranks in separate processes communicate by
// a separate mailbox. Several times a second, each rank sends a heartbeat with its progress, and
// rank 0 answers.
//
// The watch detects:
//   a dead rank: the launcher ends all ranks, and only the dead rank sends no last message
//   a stopped rank or link: the rank's heartbeats stop
//   a hang: no rank finishes an operation for `timeout`
//   a failed rank: the rank tells rank 0
//   the end of rank 0: rank 1 detects and reports it
//
// Rank 0 waits a moment before it decides, because one cause has many effects. For example, the
// death of a rank causes failures of other ranks and has priority over them. Rank 0 then prints the
// sentence, tells the other ranks to end, and exits. If ranks are threads of one process, the watch
// reads their progress from memory.
//
// The watch checks statuses, ranks and operations from other ranks, and replaces unprintable
// characters in their text.
namespace stepcast::runtime {

// The phase of a rank. Messages mention operations only in phase kRunning.
enum class Stage : std::uint8_t { kSettingUp, kRunning, kReporting, kForecasting };

struct WatchOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

class Watch {
 public:
  // A function that the watch's thread calls once, just before the process exits with `status`. The
  // function prints `sentence` and removes unfinished files. If `sentence` is empty, another rank
  // prints it. A status above 128 is 128 plus the signal that interrupted the run. No destructors
  // run afterwards.
  using End = std::function<void(int status, const std::string& sentence)>;

  // Creates the watch of one rank, if each rank is a process. All ranks of the job call this
  // function. `places` are the placements of all ranks. The watch must be the only user of
  // `mailbox`.
  static std::unique_ptr<Watch> OverProcesses(const std::vector<Place>& places, int rank,
                                              std::unique_ptr<messaging::Mailbox> mailbox,
                                              const WatchOptions& options, End end);
  // Creates the watch of ranks that are all threads of this process.
  static std::unique_ptr<Watch> OverThreads(const std::vector<Place>& places,
                                            const WatchOptions& options, End end);

  // If a watch is destroyed without Finish, its rank has failed: all other ranks end as if the rank
  // had died.
  virtual ~Watch() = default;

  // Returns the progress of a rank of this process, to which the rank's device writes.
  virtual Progress& progress(int rank) = 0;
  virtual void SetStage(int rank, Stage stage) = 0;
  // Sets the programs of ranks, indexed by rank, from which messages take the names of operations.
  // The programs must outlive the watch, and indices in Progress must be valid for these programs.
  // Call this function once.
  virtual void SetPrograms(std::vector<const program::Program*> programs) = 0;

  // Ends the run because this rank cannot continue. Thread-safe; does not return.
  [[noreturn]] void Fail(int rank, const Failure& failure);

  // Call this function when the run has succeeded on all ranks (after a barrier). After this call,
  // the watch reports no failures.
  virtual void Finish() = 0;

  // For signal handlers: makes the watch of this process end the run with status 128 plus the
  // signal. The watch first waits a moment for the cause of the signal, because mpirun sends
  // signals to all ranks if one rank dies. Returns false if there is no watch, or if an earlier
  // signal has not ended the process within seconds.
  static bool TakeSignal(int signal);

 private:
  virtual void Tell(int rank, const Failure& failure) = 0;  // called in the watch's thread
};

}  // namespace stepcast::runtime
