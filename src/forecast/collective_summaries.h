#pragma once

#include <cstdint>
#include <vector>

#include "src/cost/prices.h"
#include "src/forecast/step_counts.h"
#include "src/forecast/values.h"
#include "src/program/longer_step.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

namespace stepcast::forecast {

// A step's calls of each collective on each group, by collective, then group. `counts` are those of
// `longer`, the step that is meant; `step` is one that the timeline shows.
std::vector<CollectiveSummary> SummariseCollectives(
    const program::Program& program, const cost::Prices& prices, const StepCounts& counts,
    const program::Timeline& timeline, std::uint32_t step, const program::LongerStep& longer = {});

}  // namespace stepcast::forecast
