#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/values.h"
#include "src/memory/account.h"
#include "src/program/timeline.h"
#include "src/scenario/scenario.h"

// Forecasts a scenario: lowers the plan to programs, prices them, simulates until steps repeat, and
// summarizes time and memory. The commands simulate, memory, sweep and plan use this file.
namespace stepcast::forecast {

// A class of ranks in a forecast, with the data for traces, report pages and program dumps. The
// prices are for the class's devices.
struct ClassRun : PricedClass {
  program::Timeline timeline{};  // of one rank; steps end when the last class's steps end
  memory::Account memory{};
  Time host_waits{};  // the host waits at a barrier from this time to the end of the described step
};

// A forecast, with the data from which it was computed.
struct Run {
  Forecast forecast;
  std::vector<ClassRun> classes;  // sorted by first rank; at least one class
  std::size_t critical = 0;       // the class that ends the step last; source of forecast.time
  std::size_t fullest = 0;        // the class of forecast.memory
  std::uint32_t first_step = 0;   // first described step; begins at step_ends[first_step - 1]

  const ClassRun& critical_class() const { return classes[critical]; }
  const ClassRun& fullest_class() const { return classes[fullest]; }
  const ClassRun& class_of(int rank) const;
};

// The results that a forecast contains. Each level adds results to the previous level. The values
// do not depend on the level.
enum class Detail : std::uint8_t {
  kStep,        // step time, throughput and memory
  kRange,       // also the range of the step time, and memory by class
  kTimes,       // also the time breakdown by class, and the collectives
  kEverything,  // also records of all steps, for traces and pages
};

// Forecasts a legal scenario (scenario::Load). If the lengths of micro-batches vary
// (padded_lengths.h), the forecast is a mean over steps, and its classes describe steps of the
// longest micro-batches. Errors: the errors of cost::Price.
Result<Run> Simulate(const scenario::Scenario& scenario);

// Forecasts the scenario with Detail::kTimes. May simulate a shorter step with the same results
// (shorter_step.h).
Result<Forecast> FiguresOf(const scenario::Scenario& scenario);

// The two parts of Simulate: PricedClassesOf lowers and prices the scenario, and SimulateAt
// simulates the classes, whose prices the caller may change. Both functions fail if the lengths of
// micro-batches vary.
Result<std::vector<PricedClass>> PricedClassesOf(const scenario::Scenario& scenario);
Result<Run> SimulateAt(const scenario::Scenario& scenario, std::vector<PricedClass> classes,
                       Detail detail = Detail::kEverything);

// Returns the error of a command that needs a single step, if the lengths of the scenario's
// micro-batches vary.
Diagnostics SeveralLengths(const scenario::Scenario& scenario, std::string message);

// Forecasts one scenario after another, for sweeps, searches and comparisons. Caches layer work,
// prices and replays. Records no more than `detail` needs (at most Detail::kTimes), and does not
// validate programs. Not thread-safe.
class Forecaster {
 public:
  Forecaster();
  ~Forecaster();
  Forecaster(Forecaster&&) noexcept;
  Forecaster& operator=(Forecaster&&) noexcept;

  // Forecasts one scenario. The range is computed from the first class. If devices differ, the
  // class that ends the step last is simulated again, and the range is computed from this class.
  Result<Forecast> Evaluate(const scenario::Scenario& scenario, Detail detail = Detail::kStep);
  // Forecasts with Detail::kStep and the prices in `classes`, which must exist until the next call.
  Result<Forecast> EvaluateAt(const scenario::Scenario& scenario,
                              const std::vector<PricedClass>& classes);

  // Frees the memory of long steps, which may be hundreds of megabytes for a pipeline and is
  // otherwise kept for the next forecast. Call this function in threads that rarely forecast long
  // steps.
  void GiveBack();

  // Returns the number of forecasts that simulated a shorter step (shorter_step.h).
  std::uint64_t shortened() const { return shortened_; }

 private:
  struct Workspace;
  Result<Forecast> EvaluateLengths(const scenario::Scenario& scenario, Detail detail);

  std::unique_ptr<Workspace> workspace_;
  std::uint64_t shortened_ = 0;
};

// Returns Forecast::unknown_host (corrections.h), or none if the host costs are known or cannot
// limit the step time. For callers that compare forecasts without ranges.
std::optional<UnknownHost> UnknownHostOf(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
