#pragma once

#include <vector>

#include "src/forecast/values.h"
#include "src/model/model.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Tokens per second and the share of the devices' peak that is used, from the step time that
// `forecast` has, be it forecast or measured.
void FillThroughput(const scenario::Scenario& scenario, Forecast& forecast);
// The same where model::BuildWork of the scenario is known.
void FillThroughput(const scenario::Scenario& scenario, const std::vector<model::LayerWork>& works,
                    Forecast& forecast);

}  // namespace stepcast::forecast
