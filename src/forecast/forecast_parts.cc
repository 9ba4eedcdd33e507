#include "src/forecast/forecast_parts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "src/base/check.h"
#include "src/cost/jitter.h"
#include "src/forecast/forecast.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/lowering/lowering.h"
#include "src/memory/deferred_frees.h"
#include "src/model/architecture.h"
#include "src/parallel/schedule_check.h"
#include "src/plan/pipeline.h"
#include "src/plan/rank_grid.h"

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

using program::Index;

std::vector<memory::DeferredFrees> FreesOf(const std::vector<PricedClass>& priced) {
  std::vector<memory::DeferredFrees> frees;
  frees.reserve(priced.size());
  for (const PricedClass& own : priced) frees.emplace_back(own.program);
  return frees;
}

MarkedOperations::MarkedOperations(const std::vector<PricedClass>& priced,
                                   const std::vector<memory::DeferredFrees>& frees,
                                   const RepeatedOperations* repeated)
    : marked_(priced.size()), repeated_(repeated) {
  for (std::size_t i = 0; i < priced.size(); ++i) {
    programs_.push_back(&priced[i].program);
    if (frees[i].any() || repeated != nullptr) marked_[i].resize(programs_[i]->step.size());
    for (const Index operation : frees[i].operations()) marked_[i][operation] = true;
    for_memory_ = for_memory_ || frees[i].any();
    if (repeated == nullptr) continue;
    for (const Index operation : repeated->Of(i)) {
      if (operation != program::kNone) marked_[i][operation] = true;
    }
  }
}
void MarkedOperations::MarkIn(SimulatedRanks& ranks) const {
  for (const ReportedClass& reported : ranks.reported) {
    const std::vector<bool>& own = marked_[reported.priced];
    if (!own.empty()) ranks.classes[reported.index].marked = &own;
  }
  if (repeated_ == nullptr) return;
  for (simulate::RankClass& own : ranks.classes) {
    const auto program = std::find(programs_.begin(), programs_.end(), own.program);
    const auto index = static_cast<std::size_t>(program - programs_.begin());
    own.marked = &marked_[index];
    const std::span<const Index> ends = repeated_->EndsOf(index);
    own.looked_at = {.begin = ends.front() + 1, .end = ends.back() + 1};
  }
}

std::shared_ptr<const WorkCache::Work> WorkCache::Of(const scenario::Scenario& scenario) {
  const model::WorkOptions options = plan::WorkOptionsOf(scenario.plan);
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.model == scenario.model && entry.options == options;
  });
  if (same != entries_.end()) return same->work;
  if (entries_.size() == kMostEntries) entries_.erase(entries_.begin());
  auto layers = model::BuildWork(*scenario.model, options);
  const MicroBatchFlops flops = FlopsOf(scenario, layers);
  const auto work = std::make_shared<const Work>(Work{.layers = std::move(layers), .flops = flops});
  entries_.push_back({.model = scenario.model, .options = options, .work = work});
  return work;
}

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
  // If the run ended with a repetition, later steps are like it.
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

void DoubtAssumedKernel(const scenario::Scenario& scenario, Forecast& forecast) {
  constexpr double kEven = 0.5;
  if (!scenario.KernelDependsOnAssumedRelease() || forecast.memory.fit_probability <= kEven) return;
  scenario::Scenario older = scenario;
  older.attention_assumed = false;
  older.plan.training.attention = model::Attention::kMath;
  const auto unfused = Forecaster().Evaluate(older);
  if (unfused && !unfused->memory.fits) forecast.memory.fit_probability = kEven;
}

}  // namespace stepcast::forecast
