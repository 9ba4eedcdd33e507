#pragma once

#include <string>

#include "src/forecast/forecast.h"
#include "src/scenario/scenario.h"
#include "src/validate/comparison.h"
#include "src/validate/execution.h"

namespace stepcast::report {

// Forecast against execution as one HTML page: both time breakdowns, every kind of operation, and
// both timelines.
std::string ValidationPage(const scenario::Scenario& scenario, const forecast::Run& forecast,
                           const validate::Execution& execution,
                           const validate::Comparison& comparison, double within);

}  // namespace stepcast::report
