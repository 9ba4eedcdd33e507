#pragma once

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Warns where the scenario leaves out what the optimizer keeps beside parameters of 16 bits, and
// memory, of the fullest rank, is enough for the framework's default and not for the other common
// choice, or the other way round. The states of the other choice are computed, not simulated: they
// stay from step to step, so that they move the peak by as much as they are more or less.
void WarnOfOptimizerStates(const MemoryForecast& memory, scenario::Scenario& scenario);

}  // namespace stepcast::forecast
