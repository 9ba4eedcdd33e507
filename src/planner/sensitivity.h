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

// Computes the sensitivity of the best plan: the effect of more of each resource, and of the
// neighboring values of each setting.
namespace stepcast::planner {

// The best plan with one setting changed to the next value of its axis.
struct NeighbouringSetting {
  std::string key, from, to;
  std::string illegal_message;  // empty: the plan is legal
  Outcome outcome;
};

struct Sensitivity {
  // Forecasts of the best plan's step with 10 % more of one resource, most effective first;
  // resources without effect are omitted. The first one is the bottleneck.
  std::vector<forecast::WhatIf> faster;
  // The plan that would be best if devices had 10 % more memory; none if it is the same plan.
  std::optional<std::int64_t> with_more_memory;
  Outcome more_memory_outcome;
  std::vector<NeighbouringSetting> neighbours;  // in the order of the settings
};

inline constexpr double kResourceIncrease = 0.1;

// Why the sensitivity cannot be computed. `wrong_input`: errors of forecast::Simulate. `failure`:
// an error of Answers. The functions `screen` and `load` of SensitivityOf return a plan's first
// bound and its scenario.
struct SensitivityFault {
  Diagnostics wrong_input;  // empty: a failure
  std::string failure;
};
tl::expected<Sensitivity, SensitivityFault> SensitivityOf(
    const PlanSpace& space, Answers& answers, const Goal& goal, const SearchOptions& options,
    const SearchResult& result, const std::function<Screened(std::int64_t)>& screen,
    const std::function<Result<scenario::Scenario>(std::int64_t)>& load);

}  // namespace stepcast::planner
