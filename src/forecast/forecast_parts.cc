#include "src/forecast/forecast_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "src/cost/jitter.h"
#include "src/lowering/lowering.h"
#include "src/parallel/schedule_check.h"
#include "src/plan/pipeline.h"
#include "src/plan/rank_labels.h"

namespace stepcast::forecast {

std::vector<PricedClass> UnpricedClasses(const scenario::Scenario& scenario,
                                         const KindScenarios& kinds,
                                         const std::vector<model::LayerWork>* works,
                                         const std::function<void(program::Program&)>& lowered) {
  const plan::RankLabels labels(scenario.plan);
  const std::vector<int> in_flight = parallel::MostInFlight(plan::ScheduleOf(scenario.plan));
  std::vector<PricedClass> classes;
  for (int kind = 0; kind < kinds.count(); ++kind) {
    std::vector<program::Program> programs = lowering::Lower(kinds[kind], works, lowered);
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const plan::RankLabel& label = labels.distinct()[i];
      classes.push_back({{.label = label,
                          .node_kind = kind,
                          .device = kinds.count() > 1 ? kinds[kind].gpu->name : "",
                          .in_flight = in_flight[static_cast<std::size_t>(label.stage)]},
                         std::move(programs[i]),
                         {}});
    }
  }
  return classes;
}

void AddJitter(const scenario::Scenario& scenario, const program::Program& program,
               cost::Prices& prices) {
  const calibration::Calibration* profile = scenario.calibration.get();
  if (profile == nullptr) return;
  const plan::Parallelism& axes = scenario.plan.parallelism;
  const bool kernels = profile->kernels && scenario.gpu &&
                       !plan::TraitsOf(scenario.plan.data_parallel.framework).textbook;
  cost::AddJitter(program,
                  {.kernels = kernels ? profile->kernels->jitter : 0,
                   .collectives = profile->links ? profile->links->jitter : 0,
                   .devices = axes.data * axes.tensor * axes.pipeline * axes.context},
                  prices);
}

bool Fuller(const MemoryForecast& a, const MemoryForecast& b) {
  return a.fits != b.fits ? !a.fits : a.peak > b.peak;
}

std::size_t RangedClass(const SimulatedRanks& ranks, std::size_t critical) {
  const RankClass& first = ranks.reported.front();
  const RankClass& last = ranks.reported[critical];
  const bool alike = first.node_kind == last.node_kind && first.speed == last.speed;
  return alike ? 0 : critical;
}

memory::Steps StepsOfMemory(const SteadyRun& run) {
  memory::Steps steps{.described = run.steady.last};
  if (run.steady.count == 1) steps.repeated = run.steady.last;
  // Where the run ended with a repetition the later steps are like it.
  if (run.steady.start) steps.described = static_cast<std::uint32_t>(run.ends.size()) - 2;
  return steps;
}

void AddAllocatorStops(const AllocatorStops& stops, Forecast& forecast) {
  const Time time = stops.time;
  forecast.memory.allocator_may_hang = stops.may_hang;
  const Time without = forecast.step_time;
  forecast.step_time += time;
  forecast.time.allocator_flushes = time;
  if (!forecast.step_time_range || without <= Time()) return;
  const double longer = forecast.step_time / without;
  const double width =
      longer * static_cast<double>((forecast.step_time_range->high - without).picoseconds());
  const Time half =
      Picoseconds(std::llround(std::hypot(width, static_cast<double>(time.picoseconds()))));
  forecast.step_time_range =
      TimeRange{std::max(Time(), forecast.step_time - half), forecast.step_time + half};
}

}  // namespace stepcast::forecast
