#pragma once

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Adds a warning for each communication setting that is not the default but has no effect on the
// cost of any collective or message. The settings are algorithms, NCCL's variables, and the
// releases of NCCL and the driver. Requires a legal scenario. The step is lowered once, and priced
// once per setting that is not the default. Nothing is simulated.
void WarnOfCommunicationSettings(scenario::Scenario& scenario);

// Adds a warning if the optimizer states of 16-bit parameters are not specified and determine
// whether the fullest rank fits. In this case, the rank fits either with the framework's default or
// with the common alternative, but not with both. Nothing is simulated, because the states persist,
// so the peak changes by the difference in their size.
void WarnOfOptimizerStates(const MemoryForecast& memory, scenario::Scenario& scenario);

}  // namespace stepcast::forecast
