#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/planner/worker_pool.h"
#include "src/scenario/scenario.h"
#include "src/study/failure.h"

namespace stepcast::cli {

// Exit statuses of the process.
enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,
  kWrongInput = 2,     // diagnostics on stderr, and no output on stdout
  kAnswerIsNo = 3,     // the command printed a negative answer, such as "does not fit"
  kMayNotFit = 4,      // printed; the probability of fitting is below --fit-probability
  kInterrupted = 130,  // Ctrl-C; the command printed the best answer so far
};

// The result of a command. Commands do not print, so that stdout receives only complete, correct
// output.
struct Outcome {
  ExitStatus status = kDone;
  std::string output;    // text for stdout
  std::string messages;  // text for stderr
  // Called with `status` after everything is printed. Returns the exit status of the process.
  // Several processes can synchronize in this function before they exit. May be null.
  std::function<ExitStatus(ExitStatus)> end{};
  // If the status is kWrongInput: the mistakes that `messages` reports.
  Diagnostics diagnostics{};
};

Outcome WrongInput(const Diagnostics& diagnostics);
// Returns the outcome for a single mistake. `place` names a file or an option.
Outcome WrongInput(const char* code, std::string place, std::string message, std::string hint);

// Returns a failure with the sentence `reason` (without a period).
Outcome Failed(const std::string& reason);

// Returns the outcome for a failed study: wrong input, or a failed operation.
Outcome OutcomeOf(const study::Failure& failure);

// Writes `text` to the descriptor. Returns true if all of `text` was written; otherwise, sets
// errno.
bool WriteAll(int descriptor, std::string_view text);

// The message about stored results when a signal ends a run.

// While this object exists, SayWhatIsKept reports that the file `store` contains `kept` results.
// `what` is the text after the number, such as "of 400 combinations" or "bounds and forecasts".
// `kept` must outlive the object. Only one object may exist at a time.
class KeptNote {
 public:
  KeptNote(const std::atomic<std::int64_t>& kept, const std::string& what,
           const std::string& store);
  ~KeptNote();
  KeptNote(const KeptNote&) = delete;
  KeptNote& operator=(const KeptNote&) = delete;
};

// Prints a line on stderr, such as "120 of 400 combinations are saved in 'F'; to continue, run the
// same command again". Prints nothing if no KeptNote exists. Safe in signal handlers.
void SayWhatIsKept();

// Returns a line "WHAT: TEXT" for each element of `texts`.
inline std::string Lines(const char* what, const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += std::string(what) + ": " + text + "\n";
  return lines;
}

// Returns the scenario's warnings as lines for stderr.
inline std::string Warnings(const scenario::Scenario& scenario) {
  return Lines("warning", scenario.warnings);
}

// A command that distributes independent work over all cores.

struct WorkCommand {
  std::string scenario;  // name of the command's input, for messages
  int threads = 0;       // threads per rank; 0: one per usable core
  // Reads the input. Called first, on every rank. If the result is an outcome, the command ends and
  // rank 0 prints this outcome.
  std::function<std::optional<Outcome>()> prepare;
  // Returns a text that is equal on all ranks if their work is equal (study/run_facts.h). If there
  // are several ranks, called after `prepare` on every rank.
  std::function<std::string()> fingerprint;
  // Processes one item.
  planner::Work work;
  // Runs the command and returns its outcome. Called only on rank 0.
  std::function<Outcome(planner::WorkerPool& pool)> run;
};

// Runs a WorkCommand, on threads of this process or of several processes.
using RunWork = std::function<Outcome(const WorkCommand& command)>;

// Runs a WorkCommand on the threads of this process.
Outcome RunOnThreads(const WorkCommand& command);

}  // namespace stepcast::cli
