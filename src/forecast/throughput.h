#pragma once

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Tokens per second and the share of the devices' peak that is used, from the step time that
// `forecast` has, be it forecast or measured.
void FillThroughput(const scenario::Scenario& scenario, Forecast& forecast);

}  // namespace stepcast::forecast
