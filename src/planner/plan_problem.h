#pragma once

#include <cstdint>
#include <functional>

#include "src/base/diagnostic.h"
#include "src/planner/search_problem.h"
#include "src/scenario/scenario.h"

// Plans as a search sees them: numbers with bounds and forecasts.
namespace stepcast::planner {

struct PlanSource {
  std::int64_t plans = 0;
  // A plan's scenario, or why it cannot exist. Called from several threads at once, as the next.
  std::function<Result<scenario::Scenario>(std::int64_t)> load;
  // Whether a plan with a lower number differs in data_parallel.accumulate_unsharded alone, which
  // is false there.
  std::function<bool(std::int64_t)> has_twin;
  // Equal for plans that differ in settings of data parallelism alone, but framework and stage.
  // Null: no plan's forecast is taken for another's.
  std::function<std::string(std::int64_t)> kind{};
};

// `source` must outlive the problem.
SearchProblem ProblemOf(const PlanSource& source);

}  // namespace stepcast::planner
