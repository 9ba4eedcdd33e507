#include "src/forecast/forecast.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
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
#include "src/forecast/forecast_parts.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/padded_lengths.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/step_clock.h"
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

// Calls of one collective among the ranks of one group, on any communicator of it. There may be
// several: layers that ranks divide have one, and what adds up gradients of parts of the tokens
// among the same ranks another (lowering/gradients.h).
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
  // What exchanges send stands beside collectives.
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

namespace {

using program::Timeline;

// When the host had issued all of a step: at a barrier it waits from then on.
Time LastIssue(const Timeline& timeline, std::uint32_t step) {
  Time last;
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step == step) last = std::max(last, record.issued);
  }
  return last;
}

// As seen in a run in which steps end at other times.
void Shift(Time later, std::vector<memory::Change>& changes) {
  for (memory::Change& change : changes) {
    if (change.instruction != program::kNone) change.time += later;
  }
}

// A forecast and the run behind it, in the making: Make runs its parts in their order, once.
class WholeRun {
 public:
  // `shorter`: the step that these classes are of, in the place of the scenario's; null: its own.
  WholeRun(const scenario::Scenario& scenario, std::vector<PricedClass> priced, Detail detail,
           const ShorterStep* shorter)
      : scenario_(scenario),
        kinds_(scenario),
        barrier_(scenario.plan.training.step_barrier),
        detail_(detail),
        shorter_(shorter),
        priced_(std::move(priced)) {}

  // None: the shorter step does not tell what the scenario's does.
  Result<std::optional<Run>> Make() {
    if (shorter_ != nullptr && OutlastsTheClock(priced_, *shorter_)) return std::optional<Run>();
    if (auto counted = CountSteps(); !counted) return tl::unexpected(std::move(counted.error()));
    auto ranks = SimulatedRanksOf(scenario_, priced_, FirstSteps(barrier_));
    if (!ranks) return tl::unexpected(std::move(ranks.error()));
    ranks_ = *std::move(ranks);
    if (!RunSteps()) return std::optional<Run>();
    calls_.resize(priced_.size());
    for (const ReportedClass& own : ranks_.reported) {
      if (!AddClass(own)) return std::optional<Run>();
    }
    if (stops_ && shorter_ != nullptr) return std::optional<Run>();
    Summarise();
    if (auto stopped = AddStops(); !stopped) return tl::unexpected(std::move(stopped.error()));
    FillThroughput(scenario_, run_.forecast);
    ApplyRuns(scenario_, run_.forecast);
    const ReportedClass& critical = ranks_.reported[run_.critical];
    WidenByUnknownHost(scenario_, priced_[critical.priced].program, counts_[critical.priced],
                       *ranks_.classes[critical.index].prices, run_.forecast);
    WidenByKnownGap(scenario_, run_.forecast);
    DoubtAssumedKernel(scenario_, run_.forecast);
    HandOverPrograms();
    return std::optional<Run>(std::move(run_));
  }

 private:
  // How often the operations of each class run, in the longer step where one is meant.
  tl::expected<void, Diagnostics> CountSteps() {
    if (shorter_ != nullptr) repeated_.emplace(priced_, *shorter_);
    longer_.resize(priced_.size());
    for (std::size_t i = 0; i < priced_.size(); ++i) {
      if (repeated_) longer_[i] = repeated_->LongerOf(i);
      counts_.emplace_back(priced_[i].program, longer_[i]);
      if (auto checked = CheckClock(scenario_, priced_[i]); !checked) return checked;
    }
    return {};
  }

  // False: the shorter step does not repeat itself.
  bool RunSteps() {
    frees_ = FreesOf(priced_);
    const RepeatedOperations* const repeated = repeated_ ? &*repeated_ : nullptr;
    marked_.emplace(priced_, frees_, repeated);
    marked_->MarkIn(ranks_);
    simulate::Simulator simulator;
    // Traces and pages show all steps. Figures need no step behind the first that repeats, but a
    // whole first one: it decides how far hosts are ahead of their devices from then on, and with
    // that what idle time is put down to.
    const Extent extent = shorter_ != nullptr           ? Extent::kLateStart
                          : detail_ == Detail::kFigures ? Extent::kUntilRepetition
                                                        : Extent::kWhole;
    of_time_ = RunToSteadyState(
        simulator, ranks_, barrier_, simulate::Recording::kAll, extent, /*again=*/false,
        detail_ == Detail::kFigures ? RecordedSteps::kFromDescribed : RecordedSteps::kAll);
    if (shorter_ != nullptr) {
      period_ = PeriodOf({.simulator = simulator,
                          .run = of_time_,
                          .ranks = ranks_,
                          .priced = priced_,
                          .operations = *repeated,
                          .barrier = barrier_,
                          .needs_hosts = marked_->for_memory()},
                         *shorter_);
      if (!period_) return false;
    }
    timelines_ = simulator.Take();
    if (marked_->for_memory() && MayBeShort(ranks_, barrier_)) {
      of_memory_ =
          RunForMemory(simulator, ranks_, barrier_, simulate::Recording::kMarked, /*again=*/true);
      memory_timelines_ = simulator.Take();
    }
    return true;
  }

  // False: the shorter step does not tell the longer one's memory.
  bool AddClass(const ReportedClass& reported) {
    const SteadyState& steady = of_time_.steady;
    const PricedClass& of = priced_[reported.priced];
    const scenario::Scenario& on = kinds_[reported.node_kind];
    ClassRun& own = run_.classes.emplace_back(ClassRun{{reported, {}, {}}, {}, {}, {}});
    own.timeline = std::move(timelines_[reported.index]);
    own_ends_.push_back(own.timeline.step_ends[steady.last]);
    own.timeline.step_ends = of_time_.ends;
    own.host_waits = barrier_ ? LastIssue(own.timeline, steady.last) : of_time_.ends[steady.last];
    if (!AddMemory(reported, own)) return false;
    Forecast& forecast = figures_.emplace_back();
    TimedClass timed{of.program, *ranks_.classes[reported.index].prices, own.timeline};
    if (period_) timed.more = period_->More(reported.index, *shorter_);
    SummariseTime(timed, steady, own.host_waits, *on.calibration, on.cluster->devices(), forecast);
    forecast.memory = SummariseMemory(on, of.program, own.memory.usage);
    forecast.memory.rank = own.first_rank;
    calls_[reported.priced] = own.memory.usage.step_calls;
    stops_ = stops_ || !calls_[reported.priced].empty();
    return true;
  }

  bool AddMemory(const ReportedClass& reported, ClassRun& own) {
    const program::Program& program = priced_[reported.priced].program;
    // What is freed in host order needs no times, and has none in a run that marks what others do.
    const bool deferred = of_memory_ && frees_[reported.priced].any();
    const Timeline& timeline = deferred ? memory_timelines_[reported.index] : own.timeline;
    memory::Steps steps = StepsOfMemory(deferred ? *of_memory_ : of_time_);
    if (period_) {
      steps.longer = longer_[reported.priced];
      steps.period = period_->length;
    }
    const memory::Device device = DeviceOf(kinds_[reported.node_kind], program);
    if (detail_ == Detail::kFigures) {
      own.memory.usage =
          replayer_.Figures(program, timeline, frees_[reported.priced], device, steps);
      return own.memory.usage.of_longer;
    }
    own.memory = memory::Record(program, timeline, device, steps);
    if (deferred) {
      Shift(of_time_.ends[steps.described] - of_memory_->ends[steps.described], own.memory.changes);
    }
    return true;
  }

  void Summarise() {
    Run& run = run_;
    run.first_step = of_time_.steady.last;
    for (std::size_t i = 1; i < run.classes.size(); ++i) {
      if (own_ends_[i] > own_ends_[run.critical]) run.critical = i;
      if (Fuller(figures_[i].memory, figures_[run.fullest].memory)) run.fullest = i;
    }
    run.forecast = figures_[run.critical];
    run.forecast.step_time_range = figures_[RangedClass(ranks_, run.critical)].step_time_range;
    run.forecast.memory = figures_[run.fullest].memory;
    run.forecast.memory_of_first_class = figures_.front().memory;
    run.forecast.memory_of_last_class = figures_.back().memory;
    for (std::size_t i = 0; run.classes.size() > 1 && i < run.classes.size(); ++i) {
      run.forecast.classes.push_back({run.classes[i], figures_[i].time, figures_[i].memory});
    }
    const ReportedClass& critical = ranks_.reported[run.critical];
    run.forecast.collectives = SummariseCollectives(
        priced_[critical.priced].program, *ranks_.classes[critical.index].prices,
        counts_[critical.priced], run.critical_class().timeline, run.first_step,
        longer_[critical.priced]);
  }

  // An allocator that gives memory back stops the device where it does.
  tl::expected<void, Diagnostics> AddStops() {
    if (!stops_) return {};
    simulate::Simulator simulator;
    const auto stops =
        AllocatorStopsOf(scenario_, priced_, calls_, run_.forecast.step_time, simulator);
    if (!stops) return tl::unexpected(stops.error());
    AddAllocatorStops(*stops, run_.forecast);
    return {};
  }

  void HandOverPrograms() {
    std::vector<int> classes_left(priced_.size(), 0);
    for (const ReportedClass& reported : ranks_.reported) ++classes_left[reported.priced];
    for (std::size_t i = 0; i < run_.classes.size(); ++i) {
      const ReportedClass& reported = ranks_.reported[i];
      program::Program& program = priced_[reported.priced].program;
      const bool last = --classes_left[reported.priced] == 0;
      run_.classes[i].program = last ? std::move(program) : program;
      run_.classes[i].prices = *ranks_.classes[reported.index].prices;
    }
  }

  const scenario::Scenario& scenario_;
  const KindScenarios kinds_;
  const bool barrier_;
  const Detail detail_;
  const ShorterStep* const shorter_;
  std::vector<PricedClass> priced_;
  std::optional<RepeatedOperations> repeated_;
  std::vector<program::LongerStep> longer_;   // [priced class]
  std::vector<StepCounts> counts_;            // [priced class]
  std::vector<memory::DeferredFrees> frees_;  // [priced class]
  std::optional<MarkedOperations> marked_;
  SimulatedRanks ranks_;
  SteadyRun of_time_;
  std::optional<SteadyRun> of_memory_;  // where memory needs a run of its own
  std::optional<StepPeriod> period_;
  std::vector<Timeline> timelines_, memory_timelines_;  // [simulated class]
  memory::Replayer replayer_;
  std::vector<std::vector<memory::DriverCallsAt>> calls_;  // [priced class] of its allocator
  bool stops_ = false;                                     // there are some
  // [reported class]
  std::vector<Forecast> figures_;  // of its time and memory
  std::vector<Time> own_ends_;     // of its described step
  Run run_;
};

}  // namespace

const ClassRun& Run::class_of(int rank) const {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const ClassRun& own) {
    return own.members.empty() || std::binary_search(own.members.begin(), own.members.end(), rank);
  });
  STEPCAST_CHECK(found != classes.end(), "every rank is of a class");
  return *found;
}

namespace {

Result<Forecast> FiguresOfLengths(const scenario::Scenario& scenario) {
  const PaddedLengths lengths(scenario);
  std::vector<Forecast> forecasts;
  for (const scenario::Scenario& alike : lengths.scenarios()) {
    auto forecast = FiguresOf(alike);
    if (!forecast) return forecast;
    forecasts.push_back(*std::move(forecast));
  }
  return lengths.Combine(forecasts, [](const scenario::Scenario& alike) {
    return FlopsOf(alike, model::BuildWork(*alike.model, plan::WorkOptionsOf(alike.plan)));
  });
}

}  // namespace

Diagnostics SeveralLengths(const scenario::Scenario& scenario, std::string message) {
  return {{.code = "forecast.several-lengths",
           .location = {"training.lengths", 0, 0},
           .message = std::move(message),
           .hint = fmt::format("look at steps of one length: --set training.lengths=null, which "
                               "leaves sequence_length {}, the longest",
                               scenario.plan.training.sequence_length)}};
}

Result<Run> Simulate(const scenario::Scenario& scenario) {
  if (scenario.plan.training.has_padded_lengths()) {
    auto run = Simulate(PaddedLengths::Longest(scenario));
    if (!run) return run;
    auto forecast = FiguresOfLengths(scenario);
    if (!forecast) return tl::unexpected(std::move(forecast.error()));
    run->forecast = *std::move(forecast);
    return run;
  }
  auto classes = PricedClassesOf(scenario);
  if (!classes) return tl::unexpected(std::move(classes.error()));
  return SimulateAt(scenario, *std::move(classes));
}

Result<Forecast> FiguresOf(const scenario::Scenario& scenario) {
  if (scenario.plan.training.has_padded_lengths()) return FiguresOfLengths(scenario);
  if (const auto shorter = ShorterStepOf(scenario.plan)) {
    auto classes = PricedClassesOf(Shortened(scenario, *shorter));
    if (!classes) return tl::unexpected(std::move(classes.error()));
    auto run = WholeRun(scenario, *std::move(classes), Detail::kFigures, &*shorter).Make();
    if (!run) return tl::unexpected(std::move(run.error()));
    if (*run) return std::move((*run)->forecast);
  }
  auto classes = PricedClassesOf(scenario);
  if (!classes) return tl::unexpected(std::move(classes.error()));
  auto run = SimulateAt(scenario, *std::move(classes), Detail::kFigures);
  if (!run) return tl::unexpected(std::move(run.error()));
  return std::move(run->forecast);
}

Result<std::vector<PricedClass>> PricedClassesOf(const scenario::Scenario& scenario) {
  if (scenario.plan.training.has_padded_lengths()) {
    return tl::unexpected(
        SeveralLengths(scenario, "one step is looked at, and its micro-batches differ in length"));
  }
  const KindScenarios kinds(scenario);
  std::vector<PricedClass> classes = UnpricedClasses(scenario, kinds);
  for (PricedClass& own : classes) {
    const auto violations = program::Validate(own.program);
    for (const program::Violation& violation : violations) {
      std::fprintf(stderr, "%s\n", violation.message.c_str());
    }
    STEPCAST_CHECK(violations.empty(), "a lowered program has no race and no leak");
    auto prices = cost::Price(own.program, kinds[own.node_kind]);
    if (!prices) return tl::unexpected(std::move(prices.error()));
    own.prices = std::move(*prices);
    AddJitter(kinds[own.node_kind], own.program, own.prices);
  }
  return classes;
}

Result<Run> SimulateAt(const scenario::Scenario& scenario, std::vector<PricedClass> classes,
                       Detail detail) {
  auto run = WholeRun(scenario, std::move(classes), detail, nullptr).Make();
  if (!run) return tl::unexpected(std::move(run.error()));
  return **std::move(run);
}

}  // namespace stepcast::forecast
