#include "src/forecast/allocator_stops.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/check.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/memory/stopped_program.h"

namespace stepcast::forecast {

Result<AllocatorStops> AllocatorStopsOf(
    const scenario::Scenario& scenario, const std::vector<PricedClass>& priced,
    const std::vector<std::vector<memory::DriverCallsAt>>& calls, Time step_time,
    simulate::Simulator& simulator) {
  const bool barrier = scenario.plan.training.step_barrier;
  for (const bool waits : {true, false}) {
    std::vector<PricedClass> stopped = priced;
    for (std::size_t i = 0; i < stopped.size(); ++i) {
      if (calls[i].empty()) continue;
      stopped[i].program = memory::StoppedProgram(priced[i].program, calls[i], waits);
    }
    const auto ranks = SimulatedRanksOf(scenario, stopped, FirstSteps(barrier));
    if (!ranks) return tl::unexpected(ranks.error());
    const auto run = TryToSteadyState(simulator, *ranks, barrier, simulate::Recording::kNone,
                                      Extent::kLateStart, false);
    if (!run) continue;
    return AllocatorStops{.time = std::max(StepTimeOf(run->ends, run->steady) - step_time, Time()),
                          .may_hang = !waits};
  }
  STEPCAST_CHECK(false, "without waits of hosts a lowered program does not deadlock");
  return AllocatorStops();
}

}  // namespace stepcast::forecast
