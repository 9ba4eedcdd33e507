#include "src/cli/outcome.h"

namespace stepcast::cli {

Outcome WrongInput(const Diagnostics& diagnostics) {
  return {kWrongInput, "", Format(diagnostics)};
}

Outcome Failed(const std::string& reason) { return {kFailed, "", "stepcast: " + reason + "\n"}; }

}  // namespace stepcast::cli
