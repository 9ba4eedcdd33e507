#pragma once

#include <optional>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/forecast/what_if.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// At which part of its speed a resource makes the step take as long as it was measured: 0.5 is half
// as fast, 2 twice. To about 1 %. None if even a sixteenth, or sixteen times the speed, does not.
struct ExplainingSpeed {
  MachineResource resource = MachineResource::kCompute;
  std::optional<double> speed;
};

// Of each resource that the step depends on: first those whose speed is the nearest to what was
// forecast. `step_time`: the forecast of the scenario. Errors: as Simulate.
Result<std::vector<ExplainingSpeed>> SpeedsThatExplain(const scenario::Scenario& scenario,
                                                       Time step_time, Time measured);

}  // namespace stepcast::forecast
