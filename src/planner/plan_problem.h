#pragma once

#include <cstdint>
#include <functional>

#include "src/base/diagnostic.h"
#include "src/planner/search.h"
#include "src/scenario/scenario.h"

// Plans as a search sees them: numbers with bounds and forecasts.
namespace stepcast::planner {

// `load` gives a plan's scenario, or why it cannot exist; called from several threads at once. It
// must outlive the problem.
SearchProblem ProblemOf(std::int64_t plans,
                        const std::function<Result<scenario::Scenario>(std::int64_t)>& load);

}  // namespace stepcast::planner
