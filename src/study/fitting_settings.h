#pragma once

#include <string>
#include <vector>

#include "src/report/answers.h"
#include "src/scenario/input_contents.h"

// Finds settings with which a step fits that otherwise does not.
namespace stepcast::study {

// Tries memory-saving settings one at a time and, if none suffices, together with full
// recomputation. Returns at most five that make the scenario fit, fastest first. Each takes a
// forecast. `scenario` and `set` are those of scenario::Load.
std::vector<report::FittingSettings> SettingsThatFit(const std::string& scenario,
                                                     const std::vector<std::string>& set,
                                                     scenario::InputCache& cache);

}  // namespace stepcast::study
