#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

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
  kAnswerIsNo = 3,     // the answer is printed: it does not fit, or the like
  kMayNotFit = 4,      // likewise: less probable than --fit-probability
  kInterrupted = 130,  // Ctrl-C; the best answer found so far is printed
};

// The result of a command. Commands print nothing themselves, so that stdout receives only
// complete, correct output.
struct Outcome {
  ExitStatus status = kDone;
  std::string output;    // stdout
  std::string messages;  // stderr
  // Called when everything is printed; returns the exit status. It lets several processes end
  // together. Null: nothing to do.
  std::function<ExitStatus(ExitStatus)> end{};
  // The mistakes in `messages`, with kWrongInput.
  Diagnostics diagnostics{};
};

Outcome WrongInput(const Diagnostics& diagnostics);
// A single mistake at a place without lines: a file, or an option.
Outcome WrongInput(const char* code, std::string place, std::string message, std::string hint);

// A failure with this sentence, without a full stop.
Outcome Failed(const std::string& reason);

// Converts mistakes or a failure.
Outcome OutcomeOf(const study::Failure& failure);

// Whether all of it was written; otherwise see errno.
bool WriteAll(int descriptor, std::string_view text);

// The message about stored results when a signal ends a run.

// While an object lives, SayWhatIsKept reports that the file `store` has `kept` of `what` ("of 400
// combinations", "bounds and forecasts"). At most one at a time.
class KeptNote {
 public:
  KeptNote(const std::atomic<std::int64_t>& kept, const std::string& what,
           const std::string& store);
  ~KeptNote();
  KeptNote(const KeptNote&) = delete;
  KeptNote& operator=(const KeptNote&) = delete;
};

// Prints a line on stderr: "120 of 400 are kept in 'F': the same command goes on from there".
// Prints nothing if nothing is kept. Safe in a signal handler.
void SayWhatIsKept();

// The scenario's warnings as lines for stderr.
inline std::string Warnings(const scenario::Scenario& scenario) {
  std::string lines;
  for (const std::string& warning : scenario.warnings) lines += "warning: " + warning + "\n";
  return lines;
}

// Commands that distribute independent work over all cores.

struct WorkCommand {
  std::string scenario;  // name of the command's input in messages
  int threads = 0;       // per rank; 0: one per usable core
  // Called first, on every rank: reads the input. An outcome ends the command; rank 0 prints it.
  std::function<std::optional<Outcome>()> prepare;
  // Called next if there are several ranks, on every rank. Returns text that must be equal on all
  // ranks for them to do the same work (study/run_facts.h).
  std::function<std::string()> fingerprint;
  // Processes one item.
  planner::Work work;
  // Called only at rank 0.
  std::function<Outcome(planner::WorkerPool& pool)> run;
};

// How a program runs such a command: on its own threads, or on those of several processes.
using RunWork = std::function<Outcome(const WorkCommand& command)>;

// Runs it on the threads of this process.
Outcome RunOnThreads(const WorkCommand& command);

}  // namespace stepcast::cli
