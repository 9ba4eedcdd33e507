#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/report/answers.h"
#include "src/scenario/input_contents.h"

// Finds settings with which a step fits that does not fit otherwise.
namespace stepcast::study {

// The maximum time for trying settings.
inline constexpr std::chrono::seconds kFittingTime{10};

// Tries settings that save memory, one by one. If none suffices, tries two together, then three,
// beginning with the combinations that should fit at the least cost. Returns at most five that make
// the scenario fit, fastest first. The global batch does not change. `scenario` and `set` are the
// arguments of scenario::Load.
report::Fitting SettingsThatFit(const std::string& scenario, const std::vector<std::string>& set,
                                scenario::InputCache& cache,
                                std::chrono::milliseconds time = kFittingTime);

}  // namespace stepcast::study
