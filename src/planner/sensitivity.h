#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/what_if.h"
#include "src/planner/answers.h"
#include "src/planner/plan_space.h"
#include "src/planner/search.h"
#include "src/planner/search_problem.h"
#include "src/scenario/scenario.h"
#include "tl/expected.hpp"

// Computes how the best plan's forecast changes with 10 % more of each resource, and with the
// neighboring values of each setting.
namespace stepcast::planner {

// The best plan with a neighboring value of one setting.
struct NeighbouringSetting {
  std::string key, from, to;
  std::string illegal_message;  // empty: the plan is legal
  Outcome outcome;
};

struct Sensitivity {
  // Forecasts of the best plan's step with 10 % more of one resource. The bottleneck, which has the
  // largest effect, comes first. Resources without effect are omitted.
  std::vector<forecast::WhatIf> faster;
  // The best plan if devices had 10 % more memory. Not set if the best plan stays the same.
  std::optional<std::int64_t> with_more_memory;
  Outcome more_memory_outcome;
  std::vector<NeighbouringSetting> neighbours;  // in the order of the settings
};

inline constexpr double kResourceIncrease = 0.1;

// The reason why the sensitivity cannot be computed. `wrong_input`: errors of forecast::Simulate.
// `failure`: an error of Answers.
struct SensitivityFault {
  Diagnostics wrong_input;  // empty: see `failure`
  std::string failure;
};
tl::expected<Sensitivity, SensitivityFault> SensitivityOf(
    const PlanSpace& space, Answers& answers, const Goal& goal, const SearchOptions& options,
    const SearchResult& result, const std::function<Screened(std::int64_t)>& screen,
    const std::function<Result<scenario::Scenario>(std::int64_t)>& load);

}  // namespace stepcast::planner
