#pragma once

#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// The clock counts picoseconds in 64 bits: 106 days, and all the steps that are run must fit.

// Whether the operations of a class's step, so many times over, add up to more than a day.
bool OutlastsTheClock(const PricedClass& own, double times = 1);
// Whether those of the longer step may that the shorter one stands for.
bool OutlastsTheClock(const std::vector<PricedClass>& priced, const ShorterStep& shorter);

// Errors: cost.step-too-long, where it does.
tl::expected<void, Diagnostics> CheckClock(const scenario::Scenario& scenario,
                                           const PricedClass& own);

}  // namespace stepcast::forecast
