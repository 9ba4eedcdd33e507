#pragma once

#include <string>

#include "src/scenario/scenario.h"
#include "src/validate/comparison.h"
#include "src/validate/execution.h"

// Forecast against execution, for people and as one JSON document (docs/formats.md). Differences
// are forecast minus measured; errors are that over what was measured.
namespace stepcast::report {

// `within`: how large an error of the step time is allowed, 0.1 for ten per cent.
std::string ValidationText(const scenario::Scenario& scenario, const validate::Execution& execution,
                           const validate::Comparison& comparison, double within);

std::string ValidationJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                           const validate::Comparison& comparison, double within, double seconds);

}  // namespace stepcast::report
