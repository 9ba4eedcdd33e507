#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cli/outcome.h"
#include "src/messaging/launch.h"
#include "src/program/program.h"
#include "src/runtime/job.h"
#include "src/runtime/watch.h"

// Code common to all commands that run on several ranks.
namespace stepcast::cli {

// The function that a watch calls before it ends the process (Watch::End). Removes unfinished
// files. If `sentence` is not empty, prints `sentence` and the number of stored results
// (SayWhatIsKept).
void SayAtTheEnd(int status, const std::string& sentence);

// Prints a sentence on stderr immediately.
void Say(const std::string& sentence);

// Parses the value of --timeout. Errors: command.bad-quantity.
Result<std::chrono::milliseconds> ReadTimeout(const std::string& text);

// One rank of a job in which each rank is a process. A communication failure between ranks ends the
// process (runtime/watch.h).
class DistributedSession {
 public:
  explicit DistributedSession(std::unique_ptr<runtime::Job> job) : job_(std::move(job)) {}

  runtime::Attempt<void> StartWatch(const runtime::WatchOptions& options);

  runtime::Job& job() { return *job_; }
  runtime::Watch& watch() { return *watch_; }
  int rank() const { return job_->place().rank; }

  // Sets the programs of the rank classes, and the index of each rank's program. The watch uses the
  // programs to print the names of operations.
  void SetPrograms(std::vector<program::Program> programs,
                   const std::vector<std::size_t>& program_of_rank);
  const std::vector<program::Program>& programs() const { return programs_; }

  // Returns the failure of the lowest rank that failed, or none if no rank failed. Call this
  // function on all ranks. `own` is this rank's failure, or none. All ranks get the same result,
  // but only rank 0 gets the text of the failure.
  std::optional<Outcome> Agree(const std::optional<Outcome>& own);

  // Compares the text `own` between ranks. On rank 0, returns the lowest rank whose text differs
  // from rank 0's text, such as "rank 3 on 'host'", or an empty string. On other ranks, returns an
  // empty string.
  std::string FirstThatDiffers(const std::string& own);

  // Waits until rank 0 has printed everything, and returns rank 0's status on all ranks. Call this
  // function on all ranks. Afterward, signals are ignored, because launchers terminate the other
  // ranks when one rank exits with a nonzero status.
  ExitStatus End(ExitStatus status);

 private:
  template <typename T>
  T OrFail(runtime::Attempt<T> attempt);

  std::unique_ptr<runtime::Job> job_;
  std::vector<program::Program> programs_;
  std::unique_ptr<runtime::Watch> watch_;  // last member, so that the watch is destroyed first
};

// Connects the launched ranks, starts a watch over them and runs `work`. All ranks then exit with
// rank 0's status.
Outcome RunInSession(const messaging::Launch& launch, const runtime::WatchOptions& options,
                     const std::function<Outcome(DistributedSession&)>& work);

// Runs `work` for each job on a separate thread. If a thread cannot be started, the process ends.
void RunJobs(const std::vector<std::unique_ptr<runtime::Job>>& jobs, runtime::Watch& watch,
             const std::function<void(runtime::Job&)>& work);

// Returns the result of `work` on a rank. If `work` fails, the process ends with a message that
// contains the rank.
template <typename T>
T OrFail(runtime::Watch& watch, int rank, const std::function<runtime::Attempt<T>()>& work) {
  runtime::Failure failure;
  try {
    auto answer = work();
    if (answer) return std::move(*answer);
    failure = answer.error();
  } catch (const std::bad_alloc&) {
    failure = {"out of memory", true};
  } catch (const std::exception& error) {
    failure = {error.what()};
  }
  watch.Fail(rank, failure);
}

}  // namespace stepcast::cli
