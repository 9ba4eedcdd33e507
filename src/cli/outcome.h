#pragma once

#include <functional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/study/failure.h"

namespace stepcast::cli {

// What the process exits with.
enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,
  kWrongInput = 2,  // diagnostics on stderr, nothing on stdout
  kAnswerIsNo = 3,  // the answer is printed: it does not fit
  kMayNotFit = 4,   // likewise: less probably than --fit-probability asks for
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

}  // namespace stepcast::cli
