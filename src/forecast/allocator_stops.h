#pragma once

#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/priced_class.h"
#include "src/memory/account.h"
#include "src/scenario/scenario.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {

// How much longer the step takes because allocators make these calls of the driver in it: the calls
// themselves, what hosts wait for before segments are given back, and what then no longer runs
// beside computation (memory/stopped_program.h). The step is simulated once more; that the calls
// then come at other times is not followed up.
//
struct AllocatorStops {
  Time time;  // at least zero
  // The step may hang: a host waits for a message of another stage, and that stage waits for
  // something that this host has not issued yet. `time` is then what the calls take by themselves.
  bool may_hang = false;
};
// `calls` has the calls of each class of `priced`, and `step_time` is the step without them.
// Errors: those of SimulatedRanksOf.
Result<AllocatorStops> AllocatorStopsOf(
    const scenario::Scenario& scenario, const std::vector<PricedClass>& priced,
    const std::vector<std::vector<memory::DriverCallsAt>>& calls, Time step_time,
    simulate::Simulator& simulator);

}  // namespace stepcast::forecast
