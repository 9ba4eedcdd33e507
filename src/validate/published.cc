#include "src/validate/published.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "src/base/thread_team.h"
#include "src/forecast/forecast.h"
#include "src/forecast/training_run.h"
#include "src/forecast/uncertainty.h"
#include "src/model/architecture.h"
#include "src/model/model.h"
#include "src/scenario/data_root.h"
#include "src/scenario/load.h"
#include "src/scenario/yaml_tree.h"
#include "src/validate/measured_runs.h"

namespace stepcast::validate {
namespace {

using scenario::PublishedCase;
using scenario::PublishedSource;
using scenario::Split;

constexpr double kBiasLimit = 0.03;
constexpr double kRankLimit = 0.97;
constexpr double kRivalPart = 0.5;
constexpr double kMemoryLimit = 0.06;
// With fewer cases, a rank correlation is meaningless.
constexpr std::size_t kLeastToRank = 5;

Result<std::vector<PublishedSource>> LoadSources() {
  const auto paths = DataFiles("calibration/published", "published steps");
  if (!paths) return tl::unexpected(paths.error());
  std::vector<PublishedSource> sources;
  Diagnostics diagnostics;
  for (const std::string& path : *paths) {
    auto source = scenario::LoadPublished(path);
    if (source) {
      sources.push_back(*std::move(source));
    } else {
      diagnostics.insert(diagnostics.end(), source.error().begin(), source.error().end());
    }
  }
  if (!diagnostics.empty()) return tl::unexpected(std::move(diagnostics));
  return sources;
}

// A measured run, and the values that determine similarity.
struct Neighbour {
  std::size_t source = 0;
  bool fit = false;
  std::string gpu;
  bool experts = false;           // has experts: its MFU does not predict a dense model's
  std::array<double, 5> sizes{};  // parameters, sequence, GPUs, micro-batch size, micro-batches
  std::tuple<DataType, model::Checkpointing, int> kinds;
  double peak_seconds = 0;  // time of a rank's model FLOPs at its peak; zero: no FLOPs
  std::optional<Time> measured;

  // The fraction of the peak.
  double mfu() const { return peak_seconds / measured->seconds(); }
};

double Distance(const Neighbour& a, const Neighbour& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.sizes.size(); ++i) {
    const double doublings = std::log2(a.sizes[i] / b.sizes[i]);
    sum += doublings * doublings;
  }
  constexpr double kOtherKind = 4;
  if (std::get<0>(a.kinds) != std::get<0>(b.kinds)) sum += kOtherKind;
  if (std::get<1>(a.kinds) != std::get<1>(b.kinds)) sum += kOtherKind;
  if (std::get<2>(a.kinds) != std::get<2>(b.kinds)) sum += kOtherKind;
  return sum;
}

// Whether it is a mistake in the file and not a plan that is not modelled.
bool IsMistake(const Diagnostic& diagnostic) {
  for (const std::string_view family :
       {"input.", "yaml.", "file.", "topology.", "model.", "gpu.", "calibration.", "override."}) {
    if (diagnostic.code.starts_with(family)) return true;
  }
  return false;
}

// One case: its properties and, if requested, its forecast.
struct Entry {
  bool asked = false;
  PublishedOutcome outcome;
  Neighbour neighbour;
  Diagnostics mistakes;
};

Neighbour NeighbourOf(const scenario::Scenario& scenario, const PublishedCase& row,
                      std::size_t source) {
  const plan::Training& training = scenario.plan.training;
  Neighbour neighbour;
  neighbour.source = source;
  neighbour.fit = row.split == Split::kFit;
  neighbour.gpu = scenario.cluster->gpu();
  const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
  neighbour.experts = architecture != nullptr && architecture->experts.exist();
  neighbour.sizes = {static_cast<double>(scenario.model->all_parameter_count()),
                     static_cast<double>(training.sequence_length),
                     static_cast<double>(scenario.cluster->devices()),
                     static_cast<double>(training.micro_batch_size),
                     static_cast<double>(training.gradient_accumulation)};
  neighbour.kinds = {training.precision, training.activation_checkpointing,
                     scenario.plan.data_parallel.zero_stage};
  neighbour.measured = row.step_time;
  // For a step of one second, the fraction of the peak equals the time at the peak.
  forecast::Forecast second;
  second.step_time = Seconds(1);
  forecast::FillThroughput(scenario, second);
  if (second.has_flops) neighbour.peak_seconds = second.mfu;
  return neighbour;
}

// The range of a figure with the relative error of the peak.
std::optional<forecast::BytesRange> RangeOf(const forecast::MemoryForecast& memory, Bytes bytes) {
  if (!memory.peak_range || memory.peak == Bytes()) return std::nullopt;
  const auto scaled = [&](Bytes end) {
    return Bytes(
        std::llround(static_cast<double>(bytes.count()) * static_cast<double>(end.count()) /
                     static_cast<double>(memory.peak.count())));
  };
  return forecast::BytesRange{scaled(memory.peak_range->low), scaled(memory.peak_range->high)};
}

void Describe(const scenario::Scenario& scenario, const PublishedCase& row,
              const forecast::Forecast& forecast, PublishedOutcome& outcome) {
  const plan::Training& training = scenario.plan.training;
  outcome.model = scenario.model->name;
  outcome.gpu = scenario.cluster->gpu();
  outcome.devices = scenario.cluster->devices();
  outcome.sequence_length = training.sequence_length;
  outcome.tokens = static_cast<double>(training.global_batch_size) *
                   static_cast<double>(training.sequence_length);
  outcome.forecast = forecast.step_time;
  outcome.range = forecast.step_time_range;
  using scenario::MemoryOf;
  const forecast::MemoryForecast& memory =
      row.memory_of == MemoryOf::kFullestRank || forecast.classes.empty() ? forecast.memory
      : row.memory_of == MemoryOf::kFirstStage ? forecast.classes.front().memory
                                               : forecast.classes.back().memory;
  for (const scenario::MeasuredMemory& measured : row.memory) {
    const Bytes bytes = ForecastOf(measured.kind, memory);
    outcome.memory.push_back(
        {measured.kind, measured.peak, bytes, RangeOf(memory, bytes),
         forecast::FitProbability(measured.peak, bytes, scenario.calibration->residuals)});
  }
  const Bytes need = memory.reserved + memory.outside;
  if (memory.capacity > Bytes()) {
    outcome.filled =
        static_cast<double>(need.count()) / static_cast<double>(memory.capacity.count());
  }
  if (memory.fits) return;
  outcome.over = need - memory.capacity;
  const std::optional<forecast::BytesRange> range = RangeOf(memory, need);
  outcome.surely_over = std::max(Bytes(), (range ? range->low : need) - memory.capacity);
}

// `forecast`: that of an equal scenario, if there was one; otherwise it is made.
void Forecast(const PublishedCase& row, const std::string& file, scenario::InputCache& cache,
              forecast::Forecaster& forecaster, std::optional<Result<forecast::Forecast>>& forecast,
              Entry& entry) {
  PublishedOutcome& outcome = entry.outcome;
  if (!row.not_simulated.empty()) {
    outcome.reason = row.not_simulated;
    return;
  }
  const auto fail = [&](const Diagnostics& diagnostics) {
    outcome.reason = ReasonOf(diagnostics);
    if (std::any_of(diagnostics.begin(), diagnostics.end(), IsMistake)) {
      entry.mistakes = diagnostics;
    }
  };
  const auto scenario = scenario::LoadTree(row.scenario, file, cache);
  if (!scenario) return fail(scenario.error());
  entry.neighbour = NeighbourOf(*scenario, row, outcome.source);
  if (!entry.asked) return;
  if (!forecast) forecast = forecaster.Evaluate(*scenario, forecast::Detail::kRange);
  if (!*forecast) return fail(forecast->error());
  Describe(*scenario, row, **forecast, outcome);
}

const Neighbour* Nearest(const std::vector<Entry>& entries, const Neighbour& own,
                         double most_devices) {
  const Neighbour* nearest[2] = {nullptr, nullptr};  // of the same source, of any source
  double least[2] = {std::numeric_limits<double>::infinity(),
                     std::numeric_limits<double>::infinity()};
  constexpr std::size_t kDevices = 2;
  for (const Entry& entry : entries) {
    const Neighbour& other = entry.neighbour;
    if (&other == &own || !other.fit || !other.measured || other.peak_seconds == 0 ||
        other.gpu != own.gpu || other.experts != own.experts ||
        other.sizes[kDevices] > most_devices) {
      continue;
    }
    const double distance = Distance(own, other);
    for (int any = other.source == own.source ? 0 : 1; any < 2; ++any) {
      if (distance >= least[any]) continue;
      least[any] = distance;
      nearest[any] = &other;
    }
  }
  return nearest[0] != nullptr ? nearest[0] : nearest[1];
}

Rival RivalOf(const std::vector<Entry>& entries, const Neighbour& own) {
  Rival rival;
  if (own.peak_seconds == 0) return rival;
  const auto by = [&](double most_devices) -> std::optional<Time> {
    const Neighbour* nearest = Nearest(entries, own, most_devices);
    if (nearest == nullptr) return std::nullopt;
    constexpr double kPicoseconds = 1e12;
    return Picoseconds(std::llround(own.peak_seconds / nearest->mfu() * kPicoseconds));
  };
  rival.step_time = by(std::numeric_limits<double>::infinity());
  rival.from_small = by(kSmall);
  return rival;
}

template <typename Add>
AccuracyFigures Collect(const PublishedAccuracy& accuracy, const Selection& selection, Add add) {
  std::vector<Pair> pairs;
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    if (outcome.simulated() && accuracy.Selected(outcome, selection)) {
      add(outcome, accuracy.CaseOf(outcome), pairs);
    }
  }
  return FiguresOf(pairs);
}

// A check row of a source, and its error as a fraction of the forecast.
struct Deviation {
  std::size_t source = 0;
  double size = 0;
  bool selected = false;
};

// The error that holds the fraction `level` of the rows of all sources except `without`. `rows`:
// number by source.
double WidthAt(double level, const std::vector<Deviation>& ascending,
               const std::map<std::size_t, double>& rows, std::size_t without) {
  double all = 0;
  for (const auto& [source, count] : rows) all += source == without ? 0 : std::sqrt(count);
  double counted = 0;
  double half = 0;
  for (const Deviation& row : ascending) {
    if (row.source == without) continue;
    half = row.size;
    counted += 1 / std::sqrt(rows.at(row.source));
    if (counted >= level * all) break;
  }
  return half;
}

TransferError TransferOf(std::vector<Deviation> deviations) {
  constexpr double kNineOfTen = 0.9, kLevels = 200;
  std::sort(deviations.begin(), deviations.end(),
            [](const Deviation& a, const Deviation& b) { return a.size < b.size; });
  std::map<std::size_t, double> rows;
  for (const Deviation& row : deviations) rows[row.source] += 1;
  TransferError transfer;
  transfer.sources = rows.size();
  for (double step = kNineOfTen * kLevels; step <= kLevels; ++step) {
    const double level = step / kLevels;
    transfer.cases = transfer.inside = 0;
    std::map<std::size_t, double> by_others;
    for (const auto& [source, count] : rows) {
      by_others[source] = WidthAt(level, deviations, rows, source);
    }
    std::size_t inside = 0;  // of all
    for (const Deviation& row : deviations) {
      const bool holds = row.size <= by_others[row.source];
      inside += holds ? 1 : 0;
      if (!row.selected) continue;
      transfer.cases += 1;
      transfer.inside += holds ? 1 : 0;
    }
    transfer.half_width = WidthAt(level, deviations, rows, std::numeric_limits<std::size_t>::max());
    if (static_cast<double>(inside) >= kNineOfTen * static_cast<double>(deviations.size())) break;
  }
  transfer.residual = transfer.half_width / forecast::kHalfWidthOfResidual;
  return transfer;
}

const std::optional<Time>& Of(const Rival& rival, bool from_small) {
  return from_small ? rival.from_small : rival.step_time;
}

}  // namespace

bool PublishedAccuracy::Selected(const PublishedOutcome& outcome,
                                 const Selection& selection) const {
  const PublishedCase& row = CaseOf(outcome);
  return (selection.source ? *selection.source == outcome.source
                           : !sources[outcome.source].predicted) &&
         (!selection.split || *selection.split == row.split) &&
         (!selection.quality || *selection.quality == row.quality) &&
         (!selection.large || outcome.devices > kSmall) &&
         (!selection.fitted_source || *selection.fitted_source == IsFitted(outcome.source)) &&
         outcome.filled >= selection.least_filled && outcome.devices >= selection.least_devices &&
         outcome.devices <= selection.most_devices;
}

bool PublishedAccuracy::IsFitted(std::size_t source) const {
  const std::vector<PublishedCase>& cases = sources[source].cases;
  return !sources[source].never_fitted &&
         std::any_of(cases.begin(), cases.end(),
                     [](const PublishedCase& row) { return row.split == Split::kFit; });
}

AccuracyFigures PublishedAccuracy::StepTime(const Selection& selection) const {
  return Collect(*this, selection, [](const auto& outcome, const auto& row, auto& pairs) {
    if (!row.step_time) return;
    pairs.push_back({row.step_time->seconds(), outcome.forecast.seconds()});
  });
}

AccuracyFigures PublishedAccuracy::RivalStepTime(const Selection& selection,
                                                 bool from_small) const {
  return Collect(*this, selection, [&](const auto& outcome, const auto& row, auto& pairs) {
    const std::optional<Time>& rival = Of(outcome.rival, from_small);
    if (row.step_time && rival) pairs.push_back({row.step_time->seconds(), rival->seconds()});
  });
}

AccuracyFigures PublishedAccuracy::StepTimeBesideRival(const Selection& selection,
                                                       bool from_small) const {
  return Collect(*this, selection, [&](const auto& outcome, const auto& row, auto& pairs) {
    if (!row.step_time || !Of(outcome.rival, from_small)) return;
    pairs.push_back({row.step_time->seconds(), outcome.forecast.seconds()});
  });
}

AccuracyFigures PublishedAccuracy::Memory(const Selection& selection) const {
  return Collect(*this, selection, [](const auto& outcome, const auto&, auto& pairs) {
    for (const MemoryOutcome& memory : outcome.memory) {
      pairs.push_back({static_cast<double>(memory.measured.count()),
                       static_cast<double>(memory.forecast.count())});
    }
  });
}

Coverage PublishedAccuracy::StepTimeCoverage(const Selection& selection) const {
  Coverage coverage;
  for (const PublishedOutcome& outcome : outcomes) {
    const std::optional<Time>& measured = CaseOf(outcome).step_time;
    if (!outcome.simulated() || !Selected(outcome, selection) || !measured || !outcome.range) {
      continue;
    }
    coverage.cases += 1;
    if (outcome.range->Holds(*measured)) coverage.inside += 1;
  }
  return coverage;
}

Coverage PublishedAccuracy::MemoryCoverage(const Selection& selection) const {
  Coverage coverage;
  for (const PublishedOutcome& outcome : outcomes) {
    if (!outcome.simulated() || !Selected(outcome, selection)) continue;
    for (const MemoryOutcome& memory : outcome.memory) {
      if (!memory.range) continue;
      coverage.cases += 1;
      if (memory.measured >= memory.range->low && memory.measured <= memory.range->high) {
        coverage.inside += 1;
      }
    }
  }
  return coverage;
}

TransferError PublishedAccuracy::StepTimeTransfer(const Selection& selection) const {
  std::vector<Deviation> deviations;
  for (const PublishedOutcome& outcome : outcomes) {
    const PublishedCase& row = CaseOf(outcome);
    if (!outcome.simulated() || row.split != Split::kCheck || !row.step_time) continue;
    if (sources[outcome.source].predicted) continue;
    deviations.push_back({outcome.source, std::abs(*row.step_time / outcome.forecast - 1),
                          Selected(outcome, selection)});
  }
  return TransferOf(std::move(deviations));
}

namespace {

// Memory errors of check rows for which `counts` holds.
std::vector<Deviation> MemoryDeviations(const PublishedAccuracy& accuracy,
                                        const Selection& selection, const auto& counts) {
  std::vector<Deviation> deviations;
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    const PublishedCase& row = accuracy.CaseOf(outcome);
    if (!outcome.simulated() || row.split != Split::kCheck) continue;
    for (const MemoryOutcome& memory : outcome.memory) {
      if (memory.forecast == Bytes() || !counts(row, memory)) continue;
      deviations.push_back({outcome.source,
                            std::abs(static_cast<double>(memory.measured.count()) /
                                         static_cast<double>(memory.forecast.count()) -
                                     1),
                            accuracy.Selected(outcome, selection)});
    }
  }
  return deviations;
}

// A row that ran and is forecast not to fit has an error even without a printed peak: at least the
// excess.
std::vector<Deviation> LeastDeviations(const PublishedAccuracy& accuracy,
                                       const Selection& selection) {
  std::vector<Deviation> deviations;
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    if (!outcome.simulated() || accuracy.CaseOf(outcome).split != Split::kCheck) continue;
    if (!outcome.memory.empty() || outcome.filled <= 1) continue;
    deviations.push_back(
        {outcome.source, 1 - 1 / outcome.filled, accuracy.Selected(outcome, selection)});
  }
  return deviations;
}

}  // namespace

TransferError PublishedAccuracy::MemoryTransfer(const Selection& selection) const {
  std::vector<Deviation> deviations = MemoryDeviations(
      *this, selection, [](const PublishedCase&, const MemoryOutcome&) { return true; });
  for (const Deviation& least : LeastDeviations(*this, selection)) deviations.push_back(least);
  return TransferOf(std::move(deviations));
}

TransferError PublishedAccuracy::SpecifiedMemoryTransfer() const {
  return TransferOf(
      MemoryDeviations(*this, {}, [](const PublishedCase& row, const MemoryOutcome& memory) {
        return row.quality == scenario::Quality::kA && memory.kind != scenario::MemoryKind::kDriver;
      }));
}

std::vector<FitCalibration> PublishedAccuracy::FitCalibrations() const {
  // The fit probability at which each peak would just have fitted.
  std::vector<double> just;
  for (const PublishedOutcome& outcome : outcomes) {
    if (!outcome.simulated() || CaseOf(outcome).split != Split::kCheck) continue;
    for (const MemoryOutcome& memory : outcome.memory) {
      if (memory.forecast == Bytes()) continue;
      just.push_back(memory.just_fits);
    }
  }
  std::vector<FitCalibration> bins;
  if (just.empty()) return bins;
  constexpr int kHundred = 100;
  for (const auto& [from, to] : {std::pair(50, 70), {70, 90}, {90, 100}}) {
    FitCalibration& bin = bins.emplace_back();
    bin.from = static_cast<double>(from) / kHundred;
    bin.to = static_cast<double>(to) / kHundred;
    bin.peaks = just.size();
    bin.mean_probability = (bin.from + bin.to) / 2;
    for (int percent = from; percent < to; ++percent) {
      const double probability = (percent + 0.5) / kHundred;
      bin.cases += just.size();
      bin.fitting += static_cast<std::size_t>(std::count_if(
          just.begin(), just.end(), [&](double least) { return least <= probability; }));
    }
  }
  return bins;
}

std::vector<FitResidual> PublishedAccuracy::FitResiduals() const {
  std::map<std::pair<std::string, std::string>, std::vector<Pair>> pairs;
  for (const PublishedOutcome& outcome : outcomes) {
    const PublishedCase& row = CaseOf(outcome);
    if (!outcome.simulated() || row.split != Split::kFit) continue;
    if (row.step_time && !sources[outcome.source].predicted) {
      pairs[{outcome.gpu, "step"}].push_back(
          {row.step_time->seconds(), outcome.forecast.seconds()});
    }
    for (const MemoryOutcome& memory : outcome.memory) {
      pairs[{outcome.gpu, "memory"}].push_back({static_cast<double>(memory.measured.count()),
                                                static_cast<double>(memory.forecast.count())});
    }
  }
  std::vector<FitResidual> residuals;
  for (const auto& [key, own] : pairs) {
    residuals.push_back({key.first, key.second, own.size(), FiguresOf(own).median});
  }
  return residuals;
}

std::vector<PlanChoice> PublishedAccuracy::Choices() const {
  std::map<std::tuple<std::size_t, std::string, std::string, int, std::int64_t>,
           std::vector<std::size_t>>
      groups;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const PublishedOutcome& outcome = outcomes[i];
    if (!outcome.simulated() || !CaseOf(outcome).step_time) continue;
    groups[{outcome.source, outcome.model, outcome.gpu, outcome.devices, outcome.sequence_length}]
        .push_back(i);
  }
  std::vector<PlanChoice> choices;
  for (auto& [key, members] : groups) {
    if (members.size() < 2) continue;
    // Seconds per token.
    const auto measured = [&](std::size_t i) {
      return CaseOf(outcomes[i]).step_time->seconds() / outcomes[i].tokens;
    };
    const auto forecast = [&](std::size_t i) {
      return outcomes[i].forecast.seconds() / outcomes[i].tokens;
    };
    PlanChoice choice;
    choice.chosen =
        *std::min_element(members.begin(), members.end(),
                          [&](std::size_t a, std::size_t b) { return forecast(a) < forecast(b); });
    choice.best =
        *std::min_element(members.begin(), members.end(),
                          [&](std::size_t a, std::size_t b) { return measured(a) < measured(b); });
    choice.regret = measured(choice.chosen) / measured(choice.best) - 1;
    choice.outcomes = std::move(members);
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::vector<PublishedAim> PublishedAccuracy::Aims() const {
  std::vector<PublishedAim> aims;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const PublishedSource& source = sources[i];
    const Selection check = {.source = i, .split = Split::kCheck, .quality = {}};
    const AccuracyFigures time = StepTime(check);
    const auto add = [&](std::string what, double value, double limit,
                         AimUnit unit = AimUnit::kPart) {
      aims.push_back({source.name, std::move(what), unit, value, limit,
                      /*at_least=*/unit == AimUnit::kCorrelation});
    };
    if (time.cases > 0) {
      if (source.aims.step_time) add("mean error of step time", time.mean, *source.aims.step_time);
      add("absolute bias of step time", std::abs(time.bias), kBiasLimit);
      if (time.cases >= kLeastToRank && time.rank_correlation) {
        add("rank correlation of step time", *time.rank_correlation, kRankLimit,
            AimUnit::kCorrelation);
      }
    }
    const bool has_fit =
        std::any_of(source.cases.begin(), source.cases.end(),
                    [](const PublishedCase& row) { return row.split == Split::kFit; });
    for (const bool small : {false, true}) {
      const Selection rows = {.source = i, .split = Split::kCheck, .quality = {}, .large = small};
      const AccuracyFigures rival = RivalStepTime(rows, small);
      if (!has_fit || rival.cases == 0) continue;
      add(small ? "error of step time above 64 GPUs, divided by the error of an MFU estimate "
                  "(similar rows up to 64 GPUs)"
                : "error of step time, divided by the error of an MFU estimate (most similar row)",
          StepTimeBesideRival(rows, small).mean / rival.mean, kRivalPart);
    }
    const AccuracyFigures memory = Memory(check);
    if (memory.cases > 0) {
      add("mean error of memory", memory.mean, source.aims.memory.value_or(kMemoryLimit));
    }
    const auto too_large =
        std::count_if(outcomes.begin(), outcomes.end(), [&](const PublishedOutcome& outcome) {
          return outcome.source == i && outcome.simulated() && outcome.surely_over > Bytes();
        });
    if (too_large > 0) {
      add("number of runs that fit in memory, but are forecast not to fit",
          static_cast<double>(too_large), 0, AimUnit::kCount);
    }
  }
  // A single source says little if others are known.
  if (sources.size() > 1 && MemoryTransfer({}).sources > 1) {
    for (const FitCalibration& bin : FitCalibrations()) {
      aims.push_back({.source = "all",
                      .what = fmt::format("error of fit probabilities from {:.0f} to {:.0f} %",
                                          100 * bin.from, 100 * bin.to),
                      .unit = AimUnit::kPart,
                      .value = std::abs(bin.fitted() - bin.mean_probability),
                      .limit = kFitCalibrationLimit});
    }
  }
  return aims;
}

bool PublishedAccuracy::MeetsAims() const {
  const std::vector<PublishedAim> aims = Aims();
  return std::all_of(aims.begin(), aims.end(), [](const PublishedAim& aim) { return aim.met(); });
}

Result<PublishedAccuracy> PublishedCases(const std::string& source) {
  auto sources = LoadSources();
  if (!sources) return tl::unexpected(sources.error());
  PublishedAccuracy accuracy;
  accuracy.sources = *std::move(sources);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < accuracy.sources.size(); ++i) {
    names.push_back(accuracy.sources[i].name);
    if (!source.empty() && source != names.back()) continue;
    for (std::size_t index = 0; index < accuracy.sources[i].cases.size(); ++index) {
      PublishedOutcome& outcome = accuracy.outcomes.emplace_back();
      outcome.source = i;
      outcome.index = index;
    }
  }
  if (!source.empty() && std::find(names.begin(), names.end(), source) == names.end()) {
    return tl::unexpected(
        Diagnostics{{"command.no-source",
                     {"--source " + source, 0, 0},
                     fmt::format("there are no published steps with this name: {}", Quoted(source)),
                     fmt::format("choose from {}", fmt::join(names, ", "))}});
  }
  return accuracy;
}

Result<PublishedAccuracy> ComparePublished(const std::string& source) {
  auto cases = PublishedCases(source);
  if (!cases) return tl::unexpected(cases.error());
  PublishedAccuracy accuracy = *std::move(cases);
  accuracy.outcomes.clear();

  std::vector<Entry> entries;
  for (std::size_t i = 0; i < accuracy.sources.size(); ++i) {
    const PublishedSource& own = accuracy.sources[i];
    const bool asked = source.empty() || source == own.name;
    for (std::size_t index = 0; index < own.cases.size(); ++index) {
      // Fit rows may be neighbors of every case.
      if (!asked && own.cases[index].split != Split::kFit) continue;
      Entry& entry = entries.emplace_back();
      entry.asked = asked;
      entry.outcome.source = i;
      entry.outcome.index = index;
    }
  }

  // Equal runs are simulated once.
  std::vector<std::vector<std::size_t>> runs;
  std::map<std::string, std::size_t> run_of;  // by file and scenario
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const PublishedCase& row = accuracy.CaseOf(entries[i].outcome);
    const auto [known, added] = run_of.try_emplace(
        row.location.file + "\n" + scenario::CanonicalText(*row.scenario), runs.size());
    if (added) runs.emplace_back();
    runs[known->second].push_back(i);
  }

  scenario::InputCache cache;
  ThreadTeam team(UsableCores() - 1);
  std::vector<forecast::Forecaster> forecasters(static_cast<std::size_t>(team.size()) + 1);
  ForEachIndex(team, static_cast<std::int64_t>(runs.size()), [&](std::int64_t run, int worker) {
    std::optional<Result<forecast::Forecast>> forecast;
    for (const std::size_t i : runs[static_cast<std::size_t>(run)]) {
      const PublishedCase& row = accuracy.CaseOf(entries[i].outcome);
      Forecast(row, row.location.file, cache, forecasters[static_cast<std::size_t>(worker)],
               forecast, entries[i]);
    }
  });

  Diagnostics mistakes;
  for (Entry& entry : entries) {
    mistakes.insert(mistakes.end(), entry.mistakes.begin(), entry.mistakes.end());
    if (!entry.asked) continue;
    if (entry.outcome.simulated()) entry.outcome.rival = RivalOf(entries, entry.neighbour);
    accuracy.outcomes.push_back(entry.outcome);
  }
  if (!mistakes.empty()) return tl::unexpected(std::move(mistakes));
  return accuracy;
}

namespace {

constexpr std::size_t kLeastForRanks = 3;

// Ranks from 1; equal values share their mean rank.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    const double shared = static_cast<double>(first + last) / 2 + 1;
    for (std::size_t i = first; i <= last; ++i) ranks[order[i]] = shared;
    first = last + 1;
  }
  return ranks;
}

std::optional<double> RankCorrelation(const std::vector<Pair>& pairs) {
  if (pairs.size() < kLeastForRanks) return std::nullopt;
  std::vector<double> measured, forecast;
  for (const Pair& pair : pairs) {
    measured.push_back(pair.measured);
    forecast.push_back(pair.forecast);
  }
  const std::vector<double> a = RanksOf(measured), b = RanksOf(forecast);
  const double mean = static_cast<double>(pairs.size() + 1) / 2;
  double both = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    both += (a[i] - mean) * (b[i] - mean);
    of_a += (a[i] - mean) * (a[i] - mean);
    of_b += (b[i] - mean) * (b[i] - mean);
  }
  if (of_a == 0 || of_b == 0) return std::nullopt;
  return both / std::sqrt(of_a * of_b);
}

}  // namespace

AccuracyFigures FiguresOf(const std::vector<Pair>& pairs) {
  AccuracyFigures figures;
  figures.cases = pairs.size();
  if (pairs.empty()) return figures;
  const auto count = static_cast<double>(pairs.size());
  std::vector<double> errors;
  for (const Pair& pair : pairs) {
    figures.bias += pair.error() / count;
    figures.mean += std::abs(pair.error()) / count;
    errors.push_back(std::abs(pair.error()));
  }
  std::sort(errors.begin(), errors.end());
  const auto quantile = [&](double part) {
    const double rank = std::ceil(part * count);
    return errors[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  figures.median = quantile(0.5);
  figures.p90 = quantile(0.9);
  figures.rank_correlation = RankCorrelation(pairs);
  return figures;
}

Result<std::vector<std::string>> DataFiles(const std::string& folder, std::string_view contents) {
  const std::string path = scenario::DataRoot() + "/" + folder;
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".yaml") files.push_back(entry->path().string());
  }
  if (files.empty()) {
    return tl::unexpected(
        Diagnostics{{"file.not-found",
                     {path, 0, 0},
                     fmt::format("there are no {}", contents),
                     "set STEPCAST_DATA to the folder that contains 'calibration/'"}});
  }
  std::sort(files.begin(), files.end());
  return files;
}

Bytes ForecastOf(scenario::MemoryKind kind, const forecast::MemoryForecast& memory) {
  switch (kind) {
    case scenario::MemoryKind::kAllocated:
      return memory.peak;
    case scenario::MemoryKind::kReserved:
      return memory.reserved;
    case scenario::MemoryKind::kDriver:
      break;
  }
  return memory.reserved + memory.outside;
}

}  // namespace stepcast::validate
