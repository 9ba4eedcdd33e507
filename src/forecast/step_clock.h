#pragma once

#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// The clock counts picoseconds in 64 bits, so all simulated steps together must take at most 106
// days.

// Whether the operations of a class's step, repeated `times` times, take more than a day in total.
bool OutlastsTheClock(const PricedClass& own, double times = 1);
// The same for the longer step that the shorter step represents.
bool OutlastsTheClock(const std::vector<PricedClass>& priced, const ShorterStep& shorter);

// Errors: cost.step-too-long if the step outlasts the clock.
tl::expected<void, Diagnostics> CheckClock(const scenario::Scenario& scenario,
                                           const PricedClass& own);

}  // namespace stepcast::forecast
