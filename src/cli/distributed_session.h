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

// The common part of commands that run on several ranks.
namespace stepcast::cli {

// For Watch::End: prints the sentence and removes unfinished files.
void SayAtTheEnd(int status, const std::string& sentence);

// Prints a sentence on stderr at once, outside of any outcome.
void Say(const std::string& sentence);

// Parses the value of --timeout. Errors: command.bad-quantity.
Result<std::chrono::milliseconds> ReadTimeout(const std::string& text);

// One rank of several processes. A failure between ranks ends the process (runtime/watch.h).
class DistributedSession {
 public:
  explicit DistributedSession(std::unique_ptr<runtime::Job> job) : job_(std::move(job)) {}

  runtime::Attempt<void> StartWatch(const runtime::WatchOptions& options);

  runtime::Job& job() { return *job_; }
  runtime::Watch& watch() { return *watch_; }
  int rank() const { return job_->place().rank; }

  // Programs of rank classes and the class of each rank, for naming operations.
  void SetPrograms(std::vector<program::Program> programs,
                   const std::vector<std::size_t>& program_of_rank);
  const std::vector<program::Program>& programs() const { return programs_; }

  // The failure of the lowest rank that cannot take part, at all ranks; only rank 0 has its text.
  // Nothing if all ranks can take part.
  std::optional<Outcome> Agree(const std::optional<Outcome>& own);

  // Compares `own` between ranks. At rank 0, returns the lowest rank that differs, as "rank 3 on
  // 'host'"; at other ranks, or if none differs, an empty string.
  std::string FirstThatDiffers(const std::string& own);

  // All ranks end with rank 0's status, once it has printed everything. Signals are ignored from
  // here on: launchers terminate the other ranks when one ends with a nonzero status.
  ExitStatus End(ExitStatus status);

 private:
  template <typename T>
  T OrFail(runtime::Attempt<T> attempt);

  std::unique_ptr<runtime::Job> job_;
  std::vector<program::Program> programs_;
  std::unique_ptr<runtime::Watch> watch_;  // ends before the members that it watches
};

// Joins the launched ranks, starts the watch over them and runs `work`. All ranks then end with the
// status of rank 0.
Outcome RunInSession(const messaging::Launch& launch, const runtime::WatchOptions& options,
                     const std::function<Outcome(DistributedSession&)>& work);

// Runs `work` for each job on a thread of its own. A thread that cannot be made ends the process.
void RunJobs(const std::vector<std::unique_ptr<runtime::Job>>& jobs, runtime::Watch& watch,
             const std::function<void(runtime::Job&)>& work);

// The answer of `work` on a rank. If it fails, the process ends and names the rank.
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
