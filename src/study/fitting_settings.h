#pragma once

#include <string>
#include <vector>

#include "src/report/answers.h"
#include "src/scenario/input_contents.h"

// What makes a step fit that does not.
namespace stepcast::study {

// The settings that save memory, one at a time and, where that is not enough, together with full
// recomputation: those with which the scenario fits, the fastest first, at most five. A forecast
// each. `scenario` and `set`: as for scenario::Load.
std::vector<report::FittingSettings> SettingsThatFit(const std::string& scenario,
                                                     const std::vector<std::string>& set,
                                                     scenario::InputCache& cache);

}  // namespace stepcast::study
