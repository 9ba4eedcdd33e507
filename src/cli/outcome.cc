#include "src/cli/outcome.h"

namespace stepcast::cli {

Outcome WrongInput(const Diagnostics& diagnostics) {
  Outcome outcome{kWrongInput, "", Format(diagnostics)};
  outcome.diagnostics = diagnostics;
  return outcome;
}

Outcome Failed(const std::string& reason) {
  return {kFailed, "", "stepcast: " + Quoted(reason, "", std::string::npos) + "\n"};
}

Outcome OutcomeOf(const study::Failure& failure) {
  return failure.mistakes.empty() ? Failed(failure.reason) : WrongInput(failure.mistakes);
}

}  // namespace stepcast::cli
