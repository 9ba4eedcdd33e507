#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/report/answers.h"
#include "src/scenario/input_contents.h"

// Finds settings with which a step fits that does not fit without them.
namespace stepcast::study {

// The longest time in which settings are tried.
inline constexpr std::chrono::seconds kFittingTime{10};

// Tries settings that save memory, one by one. If none suffices, tries two together, then three,
// beginning with the combinations that should fit at the least cost. Returns at most five settings
// or combinations with which the scenario fits, fastest first. The global batch does not change.
// `scenario` and `set` are the arguments of scenario::Load.
report::Fitting SettingsThatFit(const std::string& scenario, const std::vector<std::string>& set,
                                scenario::InputCache& cache,
                                std::chrono::milliseconds time = kFittingTime);

}  // namespace stepcast::study
