#pragma once

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Adds a warning for each communication setting that differs from its default without changing the
// cost of any collective or message of the step. The settings are algorithms, NCCL's variables, and
// the releases of NCCL and the driver. Requires a legal scenario. If such a setting exists, the
// step is lowered once more, and priced once for each such setting. Nothing is simulated.
void WarnOfCommunicationSettings(scenario::Scenario& scenario);

// Warns if the optimizer states of 16-bit parameters are not stated and decide whether the fullest
// rank fits. This is so if the framework's default fits and the common alternative does not, or the
// reverse. The alternative's states are computed, not simulated. They persist between steps, so the
// difference in their size is the difference in the peak.
void WarnOfOptimizerStates(const MemoryForecast& memory, scenario::Scenario& scenario);

}  // namespace stepcast::forecast
