#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/forecast/values.h"
#include "src/planner/search_problem.h"
#include "src/scenario/scenario.h"

// Plans as a search sees them: numbers with bounds and forecasts.
namespace stepcast::planner {

// A plan's scenario, or the reason why the plan is illegal.
struct LoadedPlan {
  const scenario::Scenario* scenario = nullptr;  // valid until the thread loads another plan
  // These describe the first mistake; empty if there is a scenario.
  std::string code{}, message{}, hint{};
  // Only rules about settings that vary within a family are broken.
  bool by_inner = false;
};

struct PlanSource {
  std::int64_t plans = 0;
  // PlanSpace::families; empty: each plan is a family.
  std::vector<std::int64_t> families{};
  // Loads a plan. Thread-safe, like the next function.
  std::function<LoadedPlan(std::int64_t)> load;
  // Loads the settings that all plans of a plan's family share (PlanSpace::FamilySettings).
  std::function<LoadedPlan(std::int64_t)> load_family{};
  // Whether there is a plan with a lower number that differs only in
  // data_parallel.accumulate_unsharded, which is false in that plan.
  std::function<bool(std::int64_t)> has_twin;
  // A text that is equal for plans that differ only in settings of data parallelism, except
  // framework and stage. Null: forecasts are not shared between plans.
  std::function<std::string(std::int64_t)> kind{};
  // If plan 0 is the scenario's own: its forecast, if known, and whether another plan equals it.
  std::optional<Outcome> own{};
  std::function<bool(const scenario::Scenario&)> same_as_own{};
};

PlanFacts FactsOf(const scenario::Scenario& scenario);
Outcome OutcomeOf(const forecast::Forecast& forecast);

// `source` must outlive the problem.
SearchProblem ProblemOf(const PlanSource& source);

}  // namespace stepcast::planner
