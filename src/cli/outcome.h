#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/planner/worker_pool.h"
#include "src/scenario/scenario.h"
#include "src/study/failure.h"

namespace stepcast::cli {

// What the process exits with.
enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,
  kWrongInput = 2,     // diagnostics on stderr, nothing on stdout
  kAnswerIsNo = 3,     // the answer is printed: it does not fit
  kMayNotFit = 4,      // likewise: less probably than --fit-probability asks for
  kInterrupted = 130,  // by Ctrl-C: the best answer that was found is printed
};

// What a command has to say. Commands print nothing themselves, so that nothing reaches stdout
// before all of it is known to be right.
struct Outcome {
  ExitStatus status = kDone;
  std::string output;    // stdout
  std::string messages;  // stderr
  // What is still to do when all is printed, and the status to exit with then: several processes
  // that run together end together. Null: nothing.
  std::function<ExitStatus(ExitStatus)> end{};
  // The mistakes that `messages` tells of, with kWrongInput.
  Diagnostics diagnostics{};
};

Outcome WrongInput(const Diagnostics& diagnostics);

// A sentence about what went wrong, without a full stop.
Outcome Failed(const std::string& reason);

// One of the two.
Outcome OutcomeOf(const study::Failure& failure);

// What a run that is ended by a signal says of the results that a store has.

// While it lives, SayWhatIsKept says that the file `store` has `kept` of `what` ("of 400
// combinations", "bounds and forecasts"). One at a time.
class KeptNote {
 public:
  KeptNote(const std::atomic<std::int64_t>& kept, const std::string& what,
           const std::string& store);
  ~KeptNote();
  KeptNote(const KeptNote&) = delete;
  KeptNote& operator=(const KeptNote&) = delete;
};

// "120 of 400 are kept in 'F': the same command goes on from there", as a line on stderr; nothing
// where nothing is kept. Safe in a signal handler.
void SayWhatIsKept();

// The scenario's warnings as lines for stderr.
inline std::string Warnings(const scenario::Scenario& scenario) {
  std::string lines;
  for (const std::string& warning : scenario.warnings) lines += "warning: " + warning + "\n";
  return lines;
}

// Commands that spread independent pieces of work over all cores.

struct WorkCommand {
  std::string scenario;  // names the command's input where ranks do not agree
  int threads = 0;       // of each rank; 0: one for each core that it may use
  // Called first, on every rank: reads the input. An outcome is the end; rank 0 prints it.
  std::function<std::optional<Outcome>()> prepare;
  // Called next if there are several ranks, on every rank: text that must be the same on all, or
  // they would not do the same work (study/run_facts.h).
  std::function<std::string()> fingerprint;
  // What is done with an item.
  planner::Work work;
  // Called at rank 0 alone.
  std::function<Outcome(planner::WorkerPool& pool)> run;
};

// How a program runs such a command: on its own threads, or on those of several processes.
using RunWork = std::function<Outcome(const WorkCommand& command)>;

// On the threads of this process.
Outcome RunOnThreads(const WorkCommand& command);

}  // namespace stepcast::cli
