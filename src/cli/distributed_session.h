#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cli/outcome.h"
#include "src/program/program.h"
#include "src/runtime/job.h"
#include "src/runtime/watch.h"

// What commands that run on several ranks have in common.
namespace stepcast::cli {

// For Watch::End: says the sentence and removes unfinished files.
void SayAtTheEnd(int status, const std::string& sentence);

// A sentence for the user that belongs to no outcome, on stderr at once.
void Say(const std::string& sentence);

// The value of --timeout. Errors: command.bad-quantity.
Result<std::chrono::milliseconds> ReadTimeout(const std::string& text);

// One rank of several processes. What fails between ranks ends the process (runtime/watch.h).
class DistributedSession {
 public:
  explicit DistributedSession(std::unique_ptr<runtime::Job> job) : job_(std::move(job)) {}

  bool watched() const { return watch_ != nullptr; }
  runtime::Attempt<void> StartWatch(const runtime::WatchOptions& options);

  runtime::Job& job() { return *job_; }
  runtime::Watch& watch() { return *watch_; }
  int rank() const { return job_->place().rank; }

  // For naming operations: the classes of ranks' programs, and which of them a rank has.
  void SetPrograms(std::vector<program::Program> programs,
                   const std::vector<std::size_t>& program_of_rank);
  const std::vector<program::Program>& programs() const { return programs_; }

  // What the lowest rank that cannot take part has to say, at all ranks, with words at rank 0
  // alone: a failure. Nothing if all can.
  std::optional<Outcome> Agree(const std::optional<Outcome>& own);

  // Whether all ranks say the same: the lowest that does not, as "rank 3 on 'host'", at rank 0;
  // else, and at all others, nothing.
  std::string FirstThatDiffers(const std::string& own);

  // When rank 0 has said everything, all go, with its status. Signals mean nothing from there on:
  // launchers terminate the other ranks as soon as the first ends with a status that is not 0.
  ExitStatus End(ExitStatus status);

 private:
  template <typename T>
  T OrFail(runtime::Attempt<T> attempt);

  std::unique_ptr<runtime::Job> job_;
  std::vector<program::Program> programs_;
  std::unique_ptr<runtime::Watch> watch_;  // ends before what it looks at
};

}  // namespace stepcast::cli
