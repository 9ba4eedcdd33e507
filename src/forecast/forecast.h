#pragma once

#include <cstdint>
#include <memory>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/forecast/values.h"
#include "src/memory/account.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/scenario/scenario.h"

// A scenario's forecast: lower it, price it, run it until its steps repeat, and say where the time
// and the memory go. The one path behind simulate, memory, sweep and, later, plan.
namespace stepcast::forecast {

// Everything behind a forecast, for the trace and the program dump.
struct Run {
  Forecast forecast;
  program::Program program;
  program::Timeline timeline;
  memory::Account memory;  // behind forecast.memory
  cost::Prices prices;     // of the program's tables: the trace says where each time comes from
  std::uint32_t first_step = 0;  // the step whose interval the forecast describes is
                                 // [step_ends[first_step - 1], step_ends[first_step]]
  Time host_waits;  // from here to the interval's end the host waits at a barrier; the end without
                    // one
};

// The scenario must be legal (scenario::Load). Errors: what cost::Price reports.
Result<Run> Simulate(const scenario::Scenario& scenario);

// The scenario's program at other prices than the scenario's: what if something were faster.
Result<Run> SimulateAt(const scenario::Scenario& scenario, program::Program program,
                       cost::Prices prices);

// Forecasts one scenario after another, for sweeps and searches: step time, throughput and memory as
// Simulate gives them, to the picosecond and the byte. Where the time goes, its range and the
// collectives stay empty. It goes the same way as Simulate, in the same memory again and again; it
// keeps works, prices and replays by value, records no more than these figures need, and leaves out
// the validation of programs. Not to be used by two threads at once.
class Forecaster {
 public:
  Forecaster();
  ~Forecaster();
  Forecaster(Forecaster&&) noexcept;
  Forecaster& operator=(Forecaster&&) noexcept;

  Result<Forecast> Evaluate(const scenario::Scenario& scenario);

 private:
  struct Workspace;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace stepcast::forecast
