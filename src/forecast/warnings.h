#pragma once

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Adds a warning for each communication setting (algorithms, NCCL's variables, releases of NCCL and
// the driver) that is not the default but changes no cost. Requires a legal scenario. Lowers the
// step once and prices it once per such setting. Simulates nothing.
void WarnOfCommunicationSettings(scenario::Scenario& scenario);

// Adds a warning if the optimizer states of 16-bit parameters are not specified and determine
// whether the fullest rank fits. The warning means that the rank fits with the framework's default
// or with the common alternative, but not with both. Nothing is simulated: the peak changes by the
// difference of the state sizes.
void WarnOfOptimizerStates(const MemoryForecast& memory, scenario::Scenario& scenario);

}  // namespace stepcast::forecast
