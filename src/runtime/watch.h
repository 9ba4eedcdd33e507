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

// Watches over a run from a thread of its own. When a rank dies, hangs, fails or is interrupted,
// the run ends on all ranks, and one sentence says why.
//
// Ranks in processes of their own exchange messages for this alone, by a mailbox that nothing else
// uses. A few times a second each sends a heartbeat that says how far it is; rank 0 answers. So
//   a rank that dies       is ended by its launcher, which ends the others, too: of all ranks it
//                          alone says nothing more
//   a rank or link that is stopped   is not heard of any more
//   a run that hangs       finishes no operation on any rank for `timeout`
//   a rank that fails      tells rank 0
//   rank 0's own end       is noticed by rank 1, which reports it
// Rank 0 waits a moment before it decides, because one cause has many effects: a death counts more
// than what fails after it. Then it prints the sentence, tells the others to end, and ends itself.
// Ranks that are threads of one process are watched in memory.
//
// What ranks say of statuses, ranks and operations is checked, and their text made printable.
namespace stepcast::runtime {

// A rank's phase; operations are named only in kRunning.
enum class Stage : std::uint8_t { kSettingUp, kRunning, kReporting, kForecasting };

struct WatchOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

class Watch {
 public:
  // Called just before the process exits with `status`: prints the sentence (empty: another rank
  // prints it) and removes unfinished files. A status above 128 is the signal that interrupted the
  // run. Called once, from the watch's thread; no destructors run after it.
  using End = std::function<void(int status, const std::string& sentence)>;

  // One rank of several processes. All ranks of the job call this. `places`: of all ranks;
  // `mailbox` has no other user.
  static std::unique_ptr<Watch> OverProcesses(const std::vector<Place>& places, int rank,
                                              std::unique_ptr<messaging::Mailbox> mailbox,
                                              const WatchOptions& options, End end);
  // All ranks are threads of this process.
  static std::unique_ptr<Watch> OverThreads(const std::vector<Place>& places,
                                            const WatchOptions& options, End end);

  // Destroyed without Finish, the rank has failed: the others end as if it had died.
  virtual ~Watch() = default;

  // Progress of a rank of this process; the device writes it.
  virtual Progress& progress(int rank) = 0;
  virtual void SetStage(int rank, Stage stage) = 0;
  // For naming operations: [rank] what it runs. They must outlive the watch, and their indices must
  // be right. Once.
  virtual void SetPrograms(std::vector<const program::Program*> programs) = 0;

  // Ends the run because this rank cannot go on. May be called by any thread; does not return.
  [[noreturn]] void Fail(int rank, const Failure& failure);

  // The run is over and went well, on all ranks (after a barrier): nothing is a failure any more.
  virtual void Finish() = 0;

  // For signal handlers: the process's watch ends the run with status 128 + signal, after a moment
  // in which the cause of the signal may show (mpirun terminates all ranks when one dies). False
  // when there is no watch, or when one was told seconds before and has not ended the process.
  static bool TakeSignal(int signal);

 private:
  virtual void Tell(int rank, const Failure& failure) = 0;  // the watch's thread
};

}  // namespace stepcast::runtime
