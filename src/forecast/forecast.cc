#include "src/forecast/forecast.h"

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/cost/jitter.h"
#include "src/cost/price.h"
#include "src/forecast/padded_lengths.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/step_forecast.h"
#include "src/forecast/training_run.h"
#include "src/lowering/lowering.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/replay.h"
#include "src/model/model.h"
#include "src/parallel/schedule_check.h"
#include "src/plan/pipeline.h"
#include "src/plan/rank_grid.h"
#include "src/program/validator.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {

const ClassRun& Run::class_of(int rank) const {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const ClassRun& own) {
    return own.members.empty() || std::binary_search(own.members.begin(), own.members.end(), rank);
  });
  STEPCAST_CHECK(found != classes.end(), "every rank must belong to a class of ranks");
  return *found;
}

Diagnostics SeveralLengths(const scenario::Scenario& scenario, std::string message) {
  return {
      {.code = "forecast.several-lengths",
       .location = {"training.lengths", 0, 0},
       .message = std::move(message),
       .hint = fmt::format(
           "add --set training.lengths=null to forecast all sequences with the maximum length, {}",
           scenario.plan.training.sequence_length)}};
}

namespace {

// Caches the last few layer works of a micro-batch, because many plans share them.
class WorkCache {
 public:
  struct Work {
    std::vector<model::LayerWork> layers;  // model::BuildWork
    MicroBatchFlops flops;
  };

  // The work stays valid while the returned pointer is held.
  std::shared_ptr<const Work> Of(const scenario::Scenario& scenario);

 private:
  struct Entry {
    std::shared_ptr<const model::Model> model;
    model::WorkOptions options;
    std::shared_ptr<const Work> work;
  };
  static constexpr std::size_t kMostEntries = 16;

  std::vector<Entry> entries_;
};

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

// The deferred frees of the allocator, for each priced class in order.
std::vector<memory::DeferredFrees> FreesOf(const std::vector<PricedClass>& priced) {
  std::vector<memory::DeferredFrees> frees;
  frees.reserve(priced.size());
  for (const PricedClass& own : priced) frees.emplace_back(own.program);
  return frees;
}

// The classes of a scenario's ranks, by kind of node and then by label, with programs but without
// prices. `works` and `lowered`: passed to lowering::Lower.
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

// Adds jitter to prices. Kept separate from pricing because bounds are computed without jitter.
void AddJitter(const scenario::Scenario& scenario, const program::Program& program,
               cost::Prices& prices) {
  const calibration::Calibration* profile = scenario.calibration.get();
  if (profile == nullptr) return;
  const bool kernels = profile->kernels && scenario.gpu &&
                       !plan::TraitsOf(scenario.plan.data_parallel.framework).textbook;
  cost::AddJitter(program,
                  {.kernels = kernels ? profile->kernels->jitter : 0,
                   .collectives = profile->links ? profile->links->jitter : 0,
                   .devices = scenario.plan.parallelism.ranks()},
                  prices);
}

// The priced classes of a scenario. `lowered` receives each program before it is priced.
Result<std::vector<PricedClass>> PriceClasses(
    const scenario::Scenario& scenario, const std::vector<model::LayerWork>& works,
    cost::PriceCache& prices, const std::function<void(program::Program&)>& lowered) {
  const KindScenarios kinds(scenario);
  std::vector<PricedClass> classes = UnpricedClasses(scenario, kinds, &works, lowered);
  for (PricedClass& own : classes) {
    const scenario::Scenario& on = kinds[own.node_kind];
    STEPCAST_TAKE(own.prices, prices.Price(own.program, on, works));
    AddJitter(on, own.program, own.prices);
  }
  return classes;
}

}  // namespace

Result<std::vector<PricedClass>> PricedClassesOf(const scenario::Scenario& scenario) {
  if (scenario.plan.training.has_padded_lengths()) {
    return tl::unexpected(SeveralLengths(
        scenario, "the command supports only micro-batches with equal sequence lengths"));
  }
  WorkCache works;
  cost::PriceCache prices;
  return PriceClasses(scenario, works.Of(scenario)->layers, prices, [](program::Program& lowered) {
    const auto violations = program::Validate(lowered);
    for (const program::Violation& violation : violations) {
      std::fprintf(stderr, "%s\n", violation.message.c_str());
    }
    STEPCAST_CHECK(violations.empty(),
                   "a step program must have neither races nor leaks of memory");
  });
}

Result<Run> Simulate(const scenario::Scenario& scenario) {
  if (scenario.plan.training.has_padded_lengths()) {
    auto run = Simulate(PaddedLengths::Longest(scenario));
    if (!run) return run;
    STEPCAST_TAKE(run->forecast, FiguresOf(scenario));
    return run;
  }
  STEPCAST_TAKE(auto classes, PricedClassesOf(scenario));
  return SimulateAt(scenario, std::move(classes));
}

Result<Run> SimulateAt(const scenario::Scenario& scenario, std::vector<PricedClass> classes,
                       Detail detail) {
  WorkCache works;
  simulate::Simulator simulator;
  memory::Replayer replayer;
  const std::vector<memory::DeferredFrees> frees = FreesOf(classes);
  StepForecast forecast(scenario, classes, frees, detail, nullptr, simulator, replayer);
  STEPCAST_TAKE(auto run, forecast.Make(works.Of(scenario)->flops));
  forecast.HandOverPrograms(classes, *run);
  return *std::move(run);
}

Result<Forecast> FiguresOf(const scenario::Scenario& scenario) {
  return Forecaster().Evaluate(scenario, Detail::kTimes);
}

struct Forecaster::Workspace {
  WorkCache works;
  cost::PriceCache prices;
  simulate::Simulator simulator;
  memory::Replayer memory;
  // Instructions of all classes forecast without a shorter step, since memory was last returned.
  std::size_t instructions = 0;

  // `shorter`: the step whose classes are simulated instead of the scenario's; null: the scenario's
  // own. None: the shorter step does not determine the scenario's.
  Result<std::optional<Forecast>> Evaluate(const scenario::Scenario& scenario, Detail detail,
                                           const ShorterStep* shorter);
};

Forecaster::Forecaster() : workspace_(std::make_unique<Workspace>()) {}
Forecaster::~Forecaster() = default;
Forecaster::Forecaster(Forecaster&&) noexcept = default;
Forecaster& Forecaster::operator=(Forecaster&&) noexcept = default;

Result<std::optional<Forecast>> Forecaster::Workspace::Evaluate(const scenario::Scenario& scenario,
                                                                Detail detail,
                                                                const ShorterStep* shorter) {
  const auto work = works.Of(scenario);
  std::vector<memory::DeferredFrees> frees;  // [priced class]
  // Only deferred frees need the uses of operations, which are a third of a long step's memory.
  const auto classes =
      PriceClasses(shorter == nullptr ? scenario : Shortened(scenario, *shorter), work->layers,
                   prices, [&](program::Program& lowered) {
                     frees.emplace_back(lowered);
                     lowered.uses = std::vector<program::BufferUse>();  // {} would keep its memory
                   });
  if (!classes) return tl::unexpected(classes.error());
  STEPCAST_TAKE(auto run,
                StepForecast(scenario, *classes, frees, detail, shorter, simulator, memory)
                    .Make(work->flops));
  if (!run) return std::optional<Forecast>();
  if (shorter == nullptr) {
    for (const PricedClass& own : *classes) instructions += own.program.step.size();
  }
  return std::optional<Forecast>(std::move(run->forecast));
}

Result<Forecast> Forecaster::EvaluateLengths(const scenario::Scenario& scenario, Detail detail) {
  const PaddedLengths lengths(scenario);
  std::vector<Forecast> forecasts;
  for (const scenario::Scenario& alike : lengths.scenarios()) {
    auto forecast = Evaluate(alike, detail);
    if (!forecast) return forecast;
    forecasts.push_back(*std::move(forecast));
  }
  return lengths.Combine(forecasts, [this](const scenario::Scenario& alike) {
    return workspace_->works.Of(alike)->flops;
  });
}

Result<Forecast> Forecaster::Evaluate(const scenario::Scenario& scenario, Detail detail) {
  if (scenario.plan.training.has_padded_lengths()) return EvaluateLengths(scenario, detail);
  if (const auto shorter = ShorterStepOf(scenario.plan)) {
    STEPCAST_TAKE(auto forecast, workspace_->Evaluate(scenario, detail, &*shorter));
    if (forecast) {
      ++shortened_;
      return *std::move(forecast);
    }
  }
  STEPCAST_TAKE(auto forecast, workspace_->Evaluate(scenario, detail, nullptr));
  return *std::move(forecast);
}

void Forecaster::GiveBack() {
  constexpr std::size_t kMostKept = 3'000'000;
  if (std::exchange(workspace_->instructions, 0) < kMostKept) return;
  workspace_->simulator = {};
  workspace_->memory = {};
#ifdef __GLIBC__
  // Otherwise an arena keeps the memory below a small block that is still in use.
  malloc_trim(0);
#endif
}

Result<Forecast> Forecaster::EvaluateAt(const scenario::Scenario& scenario,
                                        const std::vector<PricedClass>& classes) {
  const std::vector<memory::DeferredFrees> frees = FreesOf(classes);
  STEPCAST_TAKE(auto run, StepForecast(scenario, classes, frees, Detail::kStep, nullptr,
                                       workspace_->simulator, workspace_->memory)
                              .Make(workspace_->works.Of(scenario)->flops));
  return std::move(run->forecast);
}

std::optional<UnknownHost> UnknownHostOf(const scenario::Scenario& scenario) {
  if (scenario.plan.training.dispatch_known || scenario.calibration == nullptr ||
      scenario.calibration->frameworks == nullptr) {
    return std::nullopt;
  }
  auto forecast = Forecaster().Evaluate(scenario, Detail::kRange);
  return forecast ? std::move(forecast->unknown_host) : std::nullopt;
}

}  // namespace stepcast::forecast
