#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/report/answers.h"
#include "src/scenario/input_contents.h"

// Finds settings that make a step fit which does not fit without them.
namespace stepcast::study {

// The time limit of the search.
inline constexpr std::chrono::seconds kFittingTime{10};

// Tries settings that save memory, one by one. If no setting suffices, tries combinations of two
// settings, then of three, starting with those that probably fit at the lowest cost. Returns at
// most five settings or combinations with which the scenario fits, fastest first. The global batch
// does not change. `scenario` and `set` are the arguments of scenario::Load.
report::Fitting SettingsThatFit(const std::string& scenario, const std::vector<std::string>& set,
                                scenario::InputCache& cache,
                                std::chrono::milliseconds time = kFittingTime);

}  // namespace stepcast::study
