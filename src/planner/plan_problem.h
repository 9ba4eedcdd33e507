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

// A plan's scenario, or why it cannot exist.
struct LoadedPlan {
  const scenario::Scenario* scenario = nullptr;  // until the thread loads another one
  // The first mistake's, and what would cure it; empty: there is a scenario.
  std::string code{}, message{}, hint{};
  // Only rules about settings in which the plans of a family differ are broken.
  bool by_inner = false;
};

struct PlanSource {
  std::int64_t plans = 0;
  // PlanSpace::families; empty: each plan is one.
  std::vector<std::int64_t> families{};
  // Called from several threads at once, as the next.
  std::function<LoadedPlan(std::int64_t)> load;
  // The same of the family of a plan: what its plans have in common (PlanSpace::FamilySettings).
  std::function<LoadedPlan(std::int64_t)> load_family{};
  // Whether a plan with a lower number differs in data_parallel.accumulate_unsharded alone, which
  // is false there.
  std::function<bool(std::int64_t)> has_twin;
  // Equal for plans that differ in settings of data parallelism alone, but framework and stage.
  // Null: no plan's forecast is taken for another's.
  std::function<std::string(std::int64_t)> kind{};
  // If plan 0 is the scenario's own: its forecast, if known, and whether another plan is the same.
  std::optional<Outcome> own{};
  std::function<bool(const scenario::Scenario&)> same_as_own{};
};

PlanFacts FactsOf(const scenario::Scenario& scenario);
Outcome OutcomeOf(const forecast::Forecast& forecast);

// `source` must outlive the problem.
SearchProblem ProblemOf(const PlanSource& source);

}  // namespace stepcast::planner
