#pragma once

#include <string>

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::report {

// The document of `simulate --json`, version 1. Everything but its last key, `run`, depends on the
// input alone; `seconds` is the wall-clock time of the run.
std::string SimulateJson(const scenario::Scenario& scenario, const forecast::Forecast& forecast,
                         double seconds);

}  // namespace stepcast::report
