#pragma once

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Adds a warning for each setting of how collectives run (their algorithm, NCCL's variables, the
// releases of NCCL and the driver) that differs from its default where no collective or message of
// the step costs anything else by default. The scenario must be legal. If there is such a setting,
// the step is lowered once more and priced once for each of them; nothing is simulated.
void WarnOfCommunicationSettings(scenario::Scenario& scenario);

// Warns where the scenario leaves out what the optimizer keeps beside parameters of 16 bits, and
// memory, of the fullest rank, is enough for the framework's default and not for the other common
// choice, or the other way round. The states of the other choice are computed, not simulated: they
// stay from step to step, so that they move the peak by as much as they are more or less.
void WarnOfOptimizerStates(const MemoryForecast& memory, scenario::Scenario& scenario);

}  // namespace stepcast::forecast
