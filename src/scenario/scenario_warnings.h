#pragma once

#include "src/scenario/scenario.h"
#include "src/scenario/scenario_file.h"

namespace stepcast::scenario {

// What is to be said of a complete scenario that `file` asks for: keys that do nothing, and
// measured collectives that are not this plan's.
void AppendWarnings(const ScenarioFile& file, Scenario& scenario);

}  // namespace stepcast::scenario
