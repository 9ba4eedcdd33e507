#pragma once

#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Adds a warning for each setting of how collectives run (their algorithm, NCCL's variables, the
// releases of NCCL and the driver) that differs from its default where no collective or message of
// the step costs anything else by default. The scenario must be legal. If there is such a setting,
// the step is lowered once more and priced once for each of them; nothing is simulated.
void WarnOfCommunicationSettings(scenario::Scenario& scenario);

}  // namespace stepcast::forecast
