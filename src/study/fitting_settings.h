#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/report/answers.h"
#include "src/scenario/input_contents.h"

// Finds settings that make a step fit in memory.
namespace stepcast::study {

// The time limit of the search.
inline constexpr std::chrono::seconds kFittingTime{10};

// Tries settings that save memory: first single settings, then combinations of two and of three,
// starting with the cheapest that probably fit. Returns at most five settings or combinations with
// which the scenario fits, fastest first. The global batch does not change. `scenario` and `set`
// are the arguments of scenario::Load.
report::Fitting SettingsThatFit(const std::string& scenario, const std::vector<std::string>& set,
                                scenario::InputCache& cache,
                                std::chrono::milliseconds time = kFittingTime);

}  // namespace stepcast::study
