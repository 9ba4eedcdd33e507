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

// Forecasts a scenario: lowers it, prices the program, simulates it until its steps repeat, and
// summarizes time and memory. The commands simulate, memory, sweep and plan all use this file.
namespace stepcast::forecast {

// A class of ranks in a forecast, with the data from which its figures were computed. Traces,
// report pages and program dumps use this data. The prices are for the class's devices, with the
// source of each time.
struct ClassRun : PricedClass {
  program::Timeline timeline{};  // of one rank of the class; steps end when the last class's steps
                                 // do
  memory::Account memory{};
  Time host_waits{};  // the host waits at a barrier from here to the end of the described step
                      // If there is no barrier, host_waits is the end of the described step.
};

// A forecast with the data from which it was computed.
struct Run {
  Forecast forecast;
  std::vector<ClassRun> classes;  // by first rank; at least one
  std::size_t critical = 0;       // the class that ends the step last, source of forecast.time
  std::size_t fullest = 0;        // the class that forecast.memory describes
                                  // `fullest` is a class that does not fit. If all classes fit, it
                                  // is the class with the highest peak.
  std::uint32_t first_step = 0;   // the first described step
                                  // The interval of the first described step is
                                  // [step_ends[first_step - 1], step_ends[first_step]].

  const ClassRun& critical_class() const { return classes[critical]; }
  const ClassRun& fullest_class() const { return classes[fullest]; }
  const ClassRun& class_of(int rank) const;
};

// The figures that a forecast computes. Each level adds figures to the previous level. A figure has
// the same value at every level, to the picosecond and the byte.
enum class Detail : std::uint8_t {
  kStep,        // step time, throughput and memory
  kRange,       // and the range of the step time, and memory by class
  kTimes,       // and the time breakdown by class, and the collectives
  kEverything,  // and records of all steps, for traces and pages
};

// Forecasts the scenario, which must be legal (scenario::Load). If micro-batches differ in length
// (padded_lengths.h), the forecast is a mean over steps, and its classes describe steps of the
// longest micro-batches. Errors: those of cost::Price.
Result<Run> Simulate(const scenario::Scenario& scenario);

// Forecasts the scenario with Detail::kTimes. A shorter step is simulated if that gives the same
// figures (shorter_step.h).
Result<Forecast> FiguresOf(const scenario::Scenario& scenario);

// The two halves of Simulate. PricedClassesOf lowers and prices the scenario. SimulateAt simulates
// the priced classes, whose prices may have been changed (what-if). If micro-batches differ in
// length, both return an error.
Result<std::vector<PricedClass>> PricedClassesOf(const scenario::Scenario& scenario);
Result<Run> SimulateAt(const scenario::Scenario& scenario, std::vector<PricedClass> classes,
                       Detail detail = Detail::kEverything);

// Returns the error for a question about a single step, if the scenario's micro-batches differ in
// length.
Diagnostics SeveralLengths(const scenario::Scenario& scenario, std::string message);

// Forecasts one scenario after another, for sweeps, searches and comparisons. It reuses its memory,
// and caches layer works, prices and replays by value. It records no more than `detail` needs (at
// most Detail::kTimes), and does not validate programs. Not thread-safe.
class Forecaster {
 public:
  Forecaster();
  ~Forecaster();
  Forecaster(Forecaster&&) noexcept;
  Forecaster& operator=(Forecaster&&) noexcept;

  // Forecasts one scenario. The range is computed from the first class, which is recorded operation
  // by operation. If devices differ, the class that ends the step last is simulated once more, and
  // the range is computed from that class.
  Result<Forecast> Evaluate(const scenario::Scenario& scenario, Detail detail = Detail::kStep);
  // Forecasts with Detail::kStep and with the prices in `classes` instead of the scenario's.
  // `classes` must not move until the next call.
  Result<Forecast> EvaluateAt(const scenario::Scenario& scenario,
                              const std::vector<PricedClass>& classes);

  // Frees the memory that long steps needed: hundreds of megabytes for a pipeline. Otherwise, the
  // memory is kept for the next forecast. Call this in threads that seldom forecast long steps,
  // after each such forecast.
  void GiveBack();

  // Returns the number of forecasts that used a shorter step (shorter_step.h). These forecasts have
  // the same figures as forecasts of whole steps, to the picosecond and the byte.
  std::uint64_t shortened() const { return shortened_; }

 private:
  struct Workspace;
  Result<Forecast> EvaluateLengths(const scenario::Scenario& scenario, Detail detail);

  std::unique_ptr<Workspace> workspace_;
  std::uint64_t shortened_ = 0;
};

// Returns the value for Forecast::unknown_host (corrections.h) if the framework's host costs are
// unknown and the host may determine the step time. Otherwise none. For callers that compare
// forecasts without ranges.
std::optional<UnknownHost> UnknownHostOf(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
