#pragma once

#include <string>

#include "src/forecast/forecast.h"
#include "src/scenario/scenario.h"

namespace stepcast::report {

// A forecast as one HTML page: where the time goes, the timeline of the step's streams, memory over
// the step, collectives, and the scenario with its defaults.
std::string SimulatePage(const scenario::Scenario& scenario, const forecast::Run& run);

}  // namespace stepcast::report
