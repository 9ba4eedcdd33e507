#pragma once

#include <optional>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/forecast/what_if.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// The speed of a resource at which the forecast equals the measured step time, as a fraction of its
// described speed, accurate to about 1 %. None if no speed from 1/16 to 16 does.
struct ExplainingSpeed {
  MachineResource resource = MachineResource::kCompute;
  std::optional<double> speed;
};

// One entry for each resource that the step depends on, sorted by distance from the described
// speed. `step_time`: the forecast of the scenario. Errors: those of Simulate.
Result<std::vector<ExplainingSpeed>> SpeedsThatExplain(const scenario::Scenario& scenario,
                                                       Time step_time, Time measured);

}  // namespace stepcast::forecast
