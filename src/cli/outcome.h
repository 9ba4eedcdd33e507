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
  kWrongInput = 2,     // diagnostics on stderr, nothing on stdout
  kAnswerIsNo = 3,     // the answer is printed: "does not fit" or similar
  kMayNotFit = 4,      // the same, if less probable than --fit-probability
  kInterrupted = 130,  // Ctrl-C; the best answer found so far is printed
};

// The result of a command. Commands print nothing themselves, so that stdout receives only
// complete, correct output.
struct Outcome {
  ExitStatus status = kDone;
  std::string output;    // stdout
  std::string messages;  // stderr
  // A function that is called with the outcome's status when everything is printed. It returns the
  // exit status of the process. It lets several processes end together. Null: nothing is called.
  std::function<ExitStatus(ExitStatus)> end{};
  // The mistakes that `messages` contains, if the status is kWrongInput.
  Diagnostics diagnostics{};
};

Outcome WrongInput(const Diagnostics& diagnostics);
// Returns the outcome for a single mistake. `place` is a file or an option, without line numbers.
Outcome WrongInput(const char* code, std::string place, std::string message, std::string hint);

// Returns a failure with the sentence `reason`, which has no period.
Outcome Failed(const std::string& reason);

// Returns the outcome for a failure of a study: for mistakes, or for a failed operation.
Outcome OutcomeOf(const study::Failure& failure);

// Writes `text` to the descriptor. Returns whether all of the text was written; otherwise, errno
// states the error.
bool WriteAll(int descriptor, std::string_view text);

// The message about stored results that is printed when a signal ends a run.

// An object of this class makes SayWhatIsKept report that the file `store` keeps `kept` results.
// `what` follows the number, such as "of 400 combinations" or "bounds and forecasts". `kept` must
// outlive the object. Only one object may exist at once.
class KeptNote {
 public:
  KeptNote(const std::atomic<std::int64_t>& kept, const std::string& what,
           const std::string& store);
  ~KeptNote();
  KeptNote(const KeptNote&) = delete;
  KeptNote& operator=(const KeptNote&) = delete;
};

// Prints a line on stderr, such as "120 of 400 combinations are saved in 'F'; run the same
// command again to continue". Prints nothing if no KeptNote exists. Safe in a signal handler.
void SayWhatIsKept();

// Returns a line "WHAT: TEXT" for each text.
inline std::string Lines(const char* what, const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += std::string(what) + ": " + text + "\n";
  return lines;
}

// Returns the scenario's warnings as lines for stderr.
inline std::string Warnings(const scenario::Scenario& scenario) {
  return Lines("warning", scenario.warnings);
}

// Commands that distribute independent work over all cores.

struct WorkCommand {
  std::string scenario;  // name of the command's input in messages
  int threads = 0;       // per rank; 0: one per usable core
  // Reads the input. This is called first, on every rank. If it returns an outcome, the command
  // ends and rank 0 prints this outcome.
  std::function<std::optional<Outcome>()> prepare;
  // Returns a text that must be equal on all ranks. Equal texts ensure that all ranks do the same
  // work (study/run_facts.h). This is called next, on every rank, if there are several ranks.
  std::function<std::string()> fingerprint;
  // Processes one item.
  planner::Work work;
  // Runs the command and returns its outcome. Called only on rank 0.
  std::function<Outcome(planner::WorkerPool& pool)> run;
};

// A function that runs a WorkCommand, either on the program's own threads or on the threads of
// several processes.
using RunWork = std::function<Outcome(const WorkCommand& command)>;

// Runs a WorkCommand on the threads of this process.
Outcome RunOnThreads(const WorkCommand& command);

}  // namespace stepcast::cli
