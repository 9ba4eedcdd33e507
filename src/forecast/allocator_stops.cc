#include "src/forecast/allocator_stops.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/memory/stopped_program.h"

namespace stepcast::forecast {

Result<Time> TimeOfAllocatorStops(const scenario::Scenario& scenario,
                                  std::vector<PricedClass> priced,
                                  const std::vector<std::vector<memory::DriverCallsAt>>& calls,
                                  Time step_time, simulate::Simulator& simulator) {
  for (std::size_t i = 0; i < priced.size(); ++i) {
    program::Program& program = priced[i].program;
    if (!calls[i].empty()) program = memory::StoppedProgram(program, calls[i]);
  }
  const bool barrier = scenario.plan.training.step_barrier;
  const auto ranks = SimulatedRanksOf(scenario, priced, FirstSteps(barrier));
  if (!ranks) return tl::unexpected(ranks.error());
  const SteadyRun run = RunToSteadyState(simulator, *ranks, barrier, simulate::Recording::kNone,
                                         Extent::kUntilRepetition, false);
  return std::max(StepTimeOf(run.ends, run.steady) - step_time, Time());
}

}  // namespace stepcast::forecast
