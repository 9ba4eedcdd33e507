#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/report/answers.h"
#include "src/scenario/input_contents.h"

// Finds settings with which a step fits that otherwise does not.
namespace stepcast::study {

// The most time that trying settings takes.
inline constexpr std::chrono::seconds kFittingTime{10};

// Tries settings that save memory one at a time. If none suffices, tries two together, then three,
// those first that should fit at the least cost. Returns at most five that make the scenario fit,
// fastest first. The global batch stays. `scenario` and `set` are those of scenario::Load.
report::Fitting SettingsThatFit(const std::string& scenario, const std::vector<std::string>& set,
                                scenario::InputCache& cache,
                                std::chrono::milliseconds time = kFittingTime);

}  // namespace stepcast::study
