#include "src/forecast/forecast.h"

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/cost/price.h"
#include "src/forecast/class_time.h"
#include "src/forecast/corrections.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/padded_lengths.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/step_forecast.h"
#include "src/forecast/training_run.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/replay.h"
#include "src/model/model.h"
#include "src/program/description.h"
#include "src/program/validator.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {
namespace {

using program::Index;

// The calls of one collective in one group, on any communicator. There may be several
// communicators: tensor-parallel layers have one, and the sum of gradients over parts of the tokens
// another (lowering/gradients.h).
struct Sum {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::string_view group;
  CollectiveSummary summary;
  std::vector<std::string_view> algorithms, protocols;
};

void Note(std::string_view name, std::vector<std::string_view>& names) {
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  names.push_back(name);
}

std::string Joined(std::vector<std::string_view>& names) {
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += '+';
    text += name;
  }
  return text;
}

Sum& SumOf(CollectiveKind kind, std::string_view group, cost::Provenance provenance,
           std::vector<Sum>& sums) {
  for (Sum& known : sums) {
    if (known.kind == kind && known.group == group) return known;
  }
  Sum& sum = sums.emplace_back();
  sum.kind = kind;
  sum.group = group;
  sum.summary.provenance = provenance;
  return sum;
}

}  // namespace

std::vector<CollectiveSummary> SummariseCollectives(
    const program::Program& program, const cost::Prices& prices, const StepCounts& counts,
    const program::Timeline& timeline, std::uint32_t step, const program::LongerStep& longer) {
  std::vector<Sum> sums;
  const auto group_of = [&program](Index communicator) -> std::string_view {
    return program.groups[program.communicators[communicator].group].name;
  };
  std::vector<std::uint32_t> sum_of(counts.collectives.size());  // by operand
  for (std::size_t operand = 0; operand < counts.collectives.size(); ++operand) {
    const std::int64_t calls = counts.collectives[operand];
    if (calls == 0) continue;
    const program::Collective& collective = program.collectives[operand];
    const cost::CollectivePrice& price = prices.collectives[operand];
    Sum& sum =
        SumOf(collective.kind, group_of(collective.communicator), price.demand.provenance, sums);
    sum_of[operand] = static_cast<std::uint32_t>(&sum - sums.data());
    CollectiveSummary& summary = sum.summary;
    summary.calls += calls;
    summary.wire_bytes_per_rank += static_cast<double>(calls) * price.wire_bytes_per_rank;
    summary.provenance = std::max(summary.provenance, price.demand.provenance);
    summary.channels = std::max(summary.channels, price.channels);
    Note(price.algorithm, sum.algorithms);
    Note(price.protocol, sum.protocols);
  }
  // Exchanges are listed together with collectives.
  std::vector<std::uint32_t> sum_of_exchange(counts.exchanges.size());
  for (std::size_t operand = 0; operand < counts.exchanges.size(); ++operand) {
    const std::int64_t calls = counts.exchanges[operand];
    if (calls == 0) continue;
    Sum& sum = SumOf(CollectiveKind::kSendRecv, group_of(program.exchanges[operand].communicator),
                     prices.exchanges[operand].front().demand.provenance, sums);
    sum_of_exchange[operand] = static_cast<std::uint32_t>(&sum - sums.data());
    CollectiveSummary& summary = sum.summary;
    summary.calls += calls;
    for (std::size_t i = 0; i < prices.exchanges[operand].size(); ++i) {
      const program::Message& message = program.exchanges[operand].messages[i];
      const cost::MessagePrice& price = prices.exchanges[operand][i];
      if (message.direction == program::MessageDirection::kSend) {
        summary.wire_bytes_per_rank +=
            static_cast<double>(calls) * static_cast<double>(message.bytes.count());
      }
      summary.provenance = std::max(summary.provenance, price.demand.provenance);
      summary.channels = std::max(summary.channels, price.channels);
      Note("pairwise", sum.algorithms);
      Note(price.protocol, sum.protocols);
    }
  }
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step != step) continue;
    const program::Instruction& instruction = program.step[record.instruction];
    const Index communicator = program::CommunicatorOf(program, instruction);
    if (communicator == program::kNone) continue;
    const std::vector<std::uint32_t>& sum =
        instruction.opcode == program::Opcode::kExchange ? sum_of_exchange : sum_of;
    sums[sum[instruction.operand]].summary.total +=
        longer.Times(record.instruction) * (record.end - record.start);
  }
  for (Sum& sum : sums) {
    sum.summary.collective = sum.kind;
    sum.summary.group = sum.group;
    sum.summary.algorithm = Joined(sum.algorithms);
    sum.summary.protocol = Joined(sum.protocols);
  }
  std::sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) {
    return std::tie(a.kind, a.group) < std::tie(b.kind, b.group);
  });
  std::vector<CollectiveSummary> summaries;
  summaries.reserve(sums.size());
  for (Sum& sum : sums) summaries.push_back(std::move(sum.summary));
  return summaries;
}

const ClassRun& Run::class_of(int rank) const {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const ClassRun& own) {
    return own.members.empty() || std::binary_search(own.members.begin(), own.members.end(), rank);
  });
  STEPCAST_CHECK(found != classes.end(), "every rank is of a class");
  return *found;
}

Diagnostics SeveralLengths(const scenario::Scenario& scenario, std::string message) {
  return {{.code = "forecast.several-lengths",
           .location = {"training.lengths", 0, 0},
           .message = std::move(message),
           .hint = fmt::format("forecast steps of one length: --set training.lengths=null, which "
                               "keeps sequence_length {}, the longest",
                               scenario.plan.training.sequence_length)}};
}

namespace {

// The priced classes of a scenario. `lowered` receives each program before it is priced.
Result<std::vector<PricedClass>> PriceClasses(
    const scenario::Scenario& scenario, const std::vector<model::LayerWork>& works,
    cost::PriceCache& prices, const std::function<void(program::Program&)>& lowered) {
  const KindScenarios kinds(scenario);
  std::vector<PricedClass> classes = UnpricedClasses(scenario, kinds, &works, lowered);
  for (PricedClass& own : classes) {
    const scenario::Scenario& on = kinds[own.node_kind];
    auto price = prices.Price(own.program, on, works);
    if (!price) return tl::unexpected(std::move(price.error()));
    own.prices = std::move(*price);
    AddJitter(on, own.program, own.prices);
  }
  return classes;
}

}  // namespace

Result<std::vector<PricedClass>> PricedClassesOf(const scenario::Scenario& scenario) {
  if (scenario.plan.training.has_padded_lengths()) {
    return tl::unexpected(
        SeveralLengths(scenario, "this command needs a step whose micro-batches have one length"));
  }
  WorkCache works;
  cost::PriceCache prices;
  return PriceClasses(scenario, works.Of(scenario)->layers, prices, [](program::Program& lowered) {
    const auto violations = program::Validate(lowered);
    for (const program::Violation& violation : violations) {
      std::fprintf(stderr, "%s\n", violation.message.c_str());
    }
    STEPCAST_CHECK(violations.empty(), "a lowered program has no race and no leak");
  });
}

Result<Run> Simulate(const scenario::Scenario& scenario) {
  if (scenario.plan.training.has_padded_lengths()) {
    auto run = Simulate(PaddedLengths::Longest(scenario));
    if (!run) return run;
    auto forecast = FiguresOf(scenario);
    if (!forecast) return tl::unexpected(std::move(forecast.error()));
    run->forecast = *std::move(forecast);
    return run;
  }
  auto classes = PricedClassesOf(scenario);
  if (!classes) return tl::unexpected(std::move(classes.error()));
  return SimulateAt(scenario, *std::move(classes));
}

Result<Run> SimulateAt(const scenario::Scenario& scenario, std::vector<PricedClass> classes,
                       Detail detail) {
  WorkCache works;
  simulate::Simulator simulator;
  memory::Replayer replayer;
  const std::vector<memory::DeferredFrees> frees = FreesOf(classes);
  StepForecast forecast(scenario, classes, frees, detail, nullptr, simulator, replayer);
  auto run = forecast.Make(works.Of(scenario)->flops);
  if (!run) return tl::unexpected(std::move(run.error()));
  forecast.HandOverPrograms(classes, **run);
  return **std::move(run);
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
  auto run =
      StepForecast(scenario, *classes, frees, detail, shorter, simulator, memory).Make(work->flops);
  if (!run) return tl::unexpected(std::move(run.error()));
  if (!*run) return std::optional<Forecast>();
  if (shorter == nullptr) {
    for (const PricedClass& own : *classes) instructions += own.program.step.size();
  }
  return std::optional<Forecast>(std::move((*run)->forecast));
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
    auto forecast = workspace_->Evaluate(scenario, detail, &*shorter);
    if (!forecast) return tl::unexpected(std::move(forecast.error()));
    if (*forecast) {
      ++shortened_;
      return **std::move(forecast);
    }
  }
  auto forecast = workspace_->Evaluate(scenario, detail, nullptr);
  if (!forecast) return tl::unexpected(std::move(forecast.error()));
  return **std::move(forecast);
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
  auto run = StepForecast(scenario, classes, frees, Detail::kStep, nullptr, workspace_->simulator,
                          workspace_->memory)
                 .Make(workspace_->works.Of(scenario)->flops);
  if (!run) return tl::unexpected(std::move(run.error()));
  return std::move((*run)->forecast);
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
