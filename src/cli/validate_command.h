#pragma once

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

// Forecasts the scenario and executes it. The answer is no when the step times differ by more.
Outcome Validate(const ValidateOptions& options);

}  // namespace stepcast::cli
