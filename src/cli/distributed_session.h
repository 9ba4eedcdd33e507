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

// The part that all commands on several ranks have in common.
namespace stepcast::cli {

// The function that a watch calls before it ends the process (Watch::End). Removes unfinished
// files. If `sentence` is not empty, prints it, and then the number of results that are kept
// (SayWhatIsKept).
void SayAtTheEnd(int status, const std::string& sentence);

// Prints a sentence on stderr immediately, instead of adding it to an outcome.
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

  // Sets the programs of the rank classes, and the index of each rank's program. The watch names
  // operations with them.
  void SetPrograms(std::vector<program::Program> programs,
                   const std::vector<std::size_t>& program_of_rank);
  const std::vector<program::Program>& programs() const { return programs_; }

  // Returns the failure of the lowest rank that cannot take part, or none if all ranks can. Call
  // this on all ranks. `own` is this rank's failure, or none if the rank can take part. The result
  // is the same on all ranks, but only rank 0 has the failure's text.
  std::optional<Outcome> Agree(const std::optional<Outcome>& own);

  // Compares the text `own` between ranks. On rank 0, returns the lowest rank whose text differs
  // from rank 0's, such as "rank 3 on 'host'". Returns an empty string on other ranks, and if no
  // text differs.
  std::string FirstThatDiffers(const std::string& own);

  // Returns rank 0's status on all ranks, after rank 0 has printed everything. Call this on all
  // ranks. From then on, signals are ignored, because launchers terminate the other ranks when one
  // rank ends with a nonzero status.
  ExitStatus End(ExitStatus status);

 private:
  template <typename T>
  T OrFail(runtime::Attempt<T> attempt);

  std::unique_ptr<runtime::Job> job_;
  std::vector<program::Program> programs_;
  std::unique_ptr<runtime::Watch> watch_;  // ends before the members that it watches
};

// Joins the launched ranks, starts the watch over them and runs `work`. All ranks then end with
// rank 0's status.
Outcome RunInSession(const messaging::Launch& launch, const runtime::WatchOptions& options,
                     const std::function<Outcome(DistributedSession&)>& work);

// Runs `work` for each job on a separate thread. If a thread cannot be started, the process ends.
void RunJobs(const std::vector<std::unique_ptr<runtime::Job>>& jobs, runtime::Watch& watch,
             const std::function<void(runtime::Job&)>& work);

// Returns the result of `work` on a rank. If `work` fails, the process ends with a message that
// names the rank.
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
