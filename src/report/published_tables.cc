#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/accuracy.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using enum Align;

using scenario::Quality;
using scenario::Split;
using validate::AccuracyFigures;
using validate::PublishedAccuracy;
using validate::PublishedOutcome;
using validate::Selection;

constexpr Split kSplits[] = {Split::kCheck, Split::kFit};
constexpr Quality kQualities[] = {Quality::kA, Quality::kB};

std::string Rank(const std::optional<double>& rank) {
  return rank ? fmt::format("{:.3f}", *rank) : "-";
}

std::string InRange(const validate::Coverage& coverage) {
  return coverage.cases == 0 ? "-" : fmt::format("{} of {}", coverage.inside, coverage.cases);
}

// One group of cases, such as "check A": by source and in total.
struct Group {
  std::string source, rows;
  Selection selection;
};

std::vector<Group> GroupsOf(const PublishedAccuracy& accuracy) {
  std::vector<Group> groups;
  const auto add = [&](std::string name, std::optional<std::size_t> source) {
    for (const Split split : kSplits) {
      for (const Quality quality : kQualities) {
        groups.push_back({name,
                          fmt::format("{} {}", scenario::Name(split), scenario::Name(quality)),
                          {.source = source, .split = split, .quality = quality}});
      }
    }
  };
  for (std::size_t i = 0; i < accuracy.sources.size(); ++i) add(accuracy.sources[i].name, i);
  const bool several = std::any_of(accuracy.outcomes.begin(), accuracy.outcomes.end(),
                                   [&](const PublishedOutcome& outcome) {
                                     return outcome.source != accuracy.outcomes.front().source;
                                   });
  if (several) add("all", std::nullopt);
  return groups;
}

std::vector<std::string> FigureCells(const Group& group, const AccuracyFigures& figures) {
  return {group.source,
          group.rows,
          fmt::format("{}", figures.cases),
          PerCent(figures.mean),
          PerCent(figures.median),
          PerCent(figures.p90),
          SignedPerCent(figures.bias),
          Rank(figures.rank_correlation)};
}

const std::vector<Column> kFigureColumns = {{"source", kLeft}, {"rows", kLeft}, {"cases"},
                                            {"mean %"},        {"median %"},    {"p90 %"},
                                            {"bias %"},        {"rank"}};

PublishedTable StepTimes(const PublishedAccuracy& accuracy) {
  PublishedTable table{.title = "Step time", .columns = kFigureColumns};
  table.columns.push_back({"rival %"});
  table.columns.push_back({"same cases %"});
  table.columns.push_back({"in range"});
  for (const Group& group : GroupsOf(accuracy)) {
    const AccuracyFigures figures = accuracy.StepTime(group.selection);
    if (figures.cases == 0) continue;
    std::vector<std::string> cells = FigureCells(group, figures);
    const AccuracyFigures rival = accuracy.RivalStepTime(group.selection, false);
    const AccuracyFigures beside = accuracy.StepTimeBesideRival(group.selection, false);
    cells.push_back(rival.cases > 0 ? PerCent(rival.mean) : "-");
    cells.push_back(rival.cases > 0 ? PerCent(beside.mean) : "-");
    cells.push_back(InRange(accuracy.StepTimeCoverage(group.selection)));
    table.rows.push_back(std::move(cells));
  }
  table.note =
      "The column 'rival' is the mean error of an estimate without simulation, which assumes the "
      "MFU of the most similar fit row. The column 'same cases' is the mean error of the forecast "
      "over the cases with such an estimate. The column 'in range' shows how many measured times "
      "are inside the range of the forecast; 90 % are expected.";
  return table;
}

PublishedTable Memories(const PublishedAccuracy& accuracy) {
  PublishedTable table{.title = "Peak memory",
                       .columns = kFigureColumns,
                       .note =
                           "Each source measured one kind of peak: allocated memory, reserved "
                           "memory, or all memory that the driver reports. The table compares "
                           "each measured peak with the forecast of the same kind."};
  table.columns.push_back({"in range"});
  for (const Group& group : GroupsOf(accuracy)) {
    const AccuracyFigures figures = accuracy.Memory(group.selection);
    if (figures.cases == 0) continue;
    std::vector<std::string> cells = FigureCells(group, figures);
    cells.push_back(InRange(accuracy.MemoryCoverage(group.selection)));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

PublishedTable Choices(const PublishedAccuracy& accuracy) {
  PublishedTable table{
      .title = "Choice of a plan",
      .columns = {{"source", kLeft},
                  {"groups"},
                  {"cases"},
                  {fmt::format("within {:.0f} %", 100 * validate::kGoodChoice)},
                  {"mean regret %"},
                  {"worst %"}},
      .note =
          "A group contains plans for one model at one sequence length on the same number of "
          "GPUs of one type. Regret compares the measured time per token of two plans: the plan "
          "with the fastest forecast, and the plan with the fastest measurement."};
  struct Sum {
    std::size_t groups = 0, cases = 0, good = 0;
    double regret = 0, worst = 0;
  };
  std::map<std::size_t, Sum> sums;
  for (const validate::PlanChoice& choice : accuracy.Choices()) {
    Sum& sum = sums[accuracy.outcomes[choice.chosen].source];
    sum.groups += 1;
    sum.cases += choice.outcomes.size();
    if (choice.regret <= validate::kGoodChoice) sum.good += 1;
    sum.regret += choice.regret;
    sum.worst = std::max(sum.worst, choice.regret);
  }
  for (const auto& [source, sum] : sums) {
    table.rows.push_back({accuracy.sources[source].name, fmt::format("{}", sum.groups),
                          fmt::format("{}", sum.cases), fmt::format("{}", sum.good),
                          PerCent(sum.regret / static_cast<double>(sum.groups)),
                          PerCent(sum.worst)});
  }
  return table;
}

// A short summary of the expected accuracy, from check rows only.
PublishedTable Headline(const PublishedAccuracy& accuracy) {
  PublishedTable table{.title = "In short",
                       .columns = {{"check rows", kLeft},
                                   {"cases"},
                                   {"sources"},
                                   {"mean %"},
                                   {"median %"},
                                   {"bias %"},
                                   {"in range"}},
                       .note =
                           "The table shows errors of step time. For your own runs, expect the "
                           "errors in the row 'sources to which no profile was fitted'."};
  const auto add = [&](std::string name, Selection selection) {
    selection.split = Split::kCheck;
    const AccuracyFigures figures = accuracy.StepTime(selection);
    if (figures.cases == 0) return;
    std::set<std::size_t> sources;
    for (const PublishedOutcome& outcome : accuracy.outcomes) {
      if (!outcome.simulated() || !accuracy.CaseOf(outcome).step_time) continue;
      if (accuracy.Selected(outcome, selection)) sources.insert(outcome.source);
    }
    table.rows.push_back({std::move(name), fmt::format("{}", figures.cases),
                          fmt::format("{}", sources.size()), PerCent(figures.mean),
                          PerCent(figures.median), SignedPerCent(figures.bias),
                          InRange(accuracy.StepTimeCoverage(selection))});
  };
  add("sources to which profiles were fitted", {.fitted_source = true});
  add("sources to which no profile was fitted", {.fitted_source = false});
  constexpr int kNode = 8, kLarge = 512;
  constexpr double kNearlyFull = 0.9;
  add("up to 8 GPUs", {.most_devices = kNode});
  add("9 to 64 GPUs", {.least_devices = kNode + 1, .most_devices = validate::kSmall});
  add("65 to 511 GPUs", {.least_devices = validate::kSmall + 1, .most_devices = kLarge - 1});
  add("512 GPUs and more", {.least_devices = kLarge});
  add("devices whose memory is more than 90 % full", {.least_filled = kNearlyFull});
  std::string predicted;
  for (std::size_t i = 0; i < accuracy.sources.size(); ++i) {
    if (!accuracy.sources[i].predicted) continue;
    const std::size_t cases =
        accuracy.StepTime({.source = i, .split = Split::kCheck, .quality = {}}).cases;
    if (cases == 0) continue;
    predicted += fmt::format("{}{} ({} rows)", predicted.empty() ? "" : ", ",
                             accuracy.sources[i].name, cases);
  }
  if (!predicted.empty()) {
    table.note += fmt::format(
        " The table omits sources whose times another simulator computed: {}.", predicted);
  }
  // With one source the rows would repeat the total.
  if (accuracy.sources.size() == 1 || table.rows.size() < 2) table.rows.clear();
  return table;
}

// The number of cases by a text.
PublishedTable Counted(std::string title, std::string heading, const PublishedAccuracy& accuracy,
                       const std::vector<std::pair<std::string, const PublishedOutcome*>>& cases) {
  PublishedTable table{.title = std::move(title),
                       .columns = {{"source", kLeft}, {"cases"}, {std::move(heading), kLeft}}};
  std::map<std::pair<std::size_t, std::string>, std::size_t> counts;
  for (const auto& [text, outcome] : cases) counts[{outcome->source, text}] += 1;
  for (const auto& [key, count] : counts) {
    table.rows.push_back({accuracy.sources[key.first].name, fmt::format("{}", count), key.second});
  }
  return table;
}

PublishedTable Transfer(const PublishedAccuracy& accuracy) {
  PublishedTable table{
      .title = "Ranges from the errors of other sources",
      .columns = {{"check rows", kLeft},
                  {"sources"},
                  {"half-width %"},
                  {"residual"},
                  {"rows"},
                  {"inside"},
                  {"inside %"}},
      .note =
          "For each source, a 90 % range is computed from the errors of all other sources. The "
          "weight of each source is the square root of its number of rows. The column 'inside' is "
          "the number of rows with an error inside the range from the other sources. The column "
          "'half-width' is half of the 90 % range from all sources. The column 'residual' is the "
          "value for the residual `source` or `memory` of a profile. The last row of the table "
          "includes only peaks that the allocator reported. If the peak of a run is unknown, but "
          "the run is forecast not to fit, the error is the forecast peak minus the device's "
          "memory."};
  const auto add = [&](std::string what, const validate::TransferError& transfer) {
    // A single source has no other sources to predict it from.
    if (transfer.cases == 0 || transfer.sources < 2) return;
    table.rows.push_back(
        {std::move(what), fmt::format("{}", transfer.sources), PerCent(transfer.half_width),
         fmt::format("{:.3f}", transfer.residual), fmt::format("{}", transfer.cases),
         fmt::format("{}", transfer.inside),
         PerCent(static_cast<double>(transfer.inside) / static_cast<double>(transfer.cases))});
  };
  add("step time", accuracy.StepTimeTransfer({}));
  for (const auto& [what, least, most] :
       {std::tuple("step time, up to 64 GPUs", 1, validate::kSmall),
        std::tuple("step time, 65 to 511 GPUs", validate::kSmall + 1, 511),
        std::tuple("step time, 512 GPUs and more", 512, std::numeric_limits<int>::max())}) {
    add(what, accuracy.StepTimeTransfer({.least_devices = least, .most_devices = most}));
  }
  add("peak memory", accuracy.MemoryTransfer({}));
  add("peak memory of runs that are specified completely", accuracy.SpecifiedMemoryTransfer());
  return table;
}

PublishedTable FitProbabilities(const PublishedAccuracy& accuracy) {
  PublishedTable table{
      .title = "Probability that a peak fits",
      .columns = {{"forecast %", kLeft},
                  {"peaks"},
                  {"cases"},
                  {"forecast on average %"},
                  {"fitted"},
                  {"fitted %"},
                  {"off %"}},
      .note = fmt::format(
          "The column 'peaks' is the number of measured peaks of check rows. Each peak is compared "
          "with the capacities of imaginary devices. For each percentage, one device has the "
          "capacity that leads to this forecast probability of fitting. Each comparison is a case. "
          "The column 'fitted' is "
          "the number of cases in which the measured peak is at most the capacity. The column "
          "'off' is the observed percentage minus the forecast percentage; the target is at most "
          "{:.0f} %.",
          100 * validate::kFitCalibrationLimit)};
  // Errors of rows of one source are correlated, so at least two sources are needed.
  if (accuracy.MemoryTransfer({}).sources < 2) return table;
  for (const validate::FitCalibration& bin : accuracy.FitCalibrations()) {
    table.rows.push_back({fmt::format("{:.0f} to {:.0f}", 100 * bin.from, 100 * bin.to),
                          fmt::format("{}", bin.peaks), fmt::format("{}", bin.cases),
                          PerCent(bin.mean_probability), fmt::format("{}", bin.fitting),
                          PerCent(bin.fitted()), PerCent(bin.fitted() - bin.mean_probability)});
  }
  return table;
}

PublishedTable NotSimulated(const PublishedAccuracy& accuracy) {
  std::vector<std::pair<std::string, const PublishedOutcome*>> cases;
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    if (!outcome.simulated()) cases.emplace_back(outcome.reason, &outcome);
  }
  return Counted("Not simulated", "reason", accuracy, cases);
}

PublishedTable StandIns(const PublishedAccuracy& accuracy) {
  std::vector<std::pair<std::string, const PublishedOutcome*>> cases;
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    if (!outcome.simulated()) continue;
    for (const std::string& text : accuracy.CaseOf(outcome).stand_ins) {
      cases.emplace_back(text, &outcome);
    }
  }
  return Counted("Cases simulated with other settings than the settings of the run", "replacement",
                 accuracy, cases);
}

PublishedTable TooLarge(const PublishedAccuracy& accuracy) {
  PublishedTable table{.title = "Runs that fit, but are forecast not to fit",
                       .columns = {{"source", kLeft}, {"case", kLeft}, {"GPU", kLeft}, {"over"}}};
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    if (outcome.over == Bytes()) continue;
    table.rows.push_back({accuracy.sources[outcome.source].name, accuracy.CaseOf(outcome).name,
                          outcome.gpu, FormatBytes(outcome.over)});
  }
  return table;
}

PublishedTable Worst(const PublishedAccuracy& accuracy) {
  constexpr std::size_t kMost = 10;
  PublishedTable table{.title = "Largest errors of step time on check rows",
                       .columns = {{"source", kLeft},
                                   {"case", kLeft},
                                   {"model", kLeft},
                                   {"GPU", kLeft},
                                   {"GPUs"},
                                   {"measured"},
                                   {"forecast"},
                                   {"error %"}}};
  std::vector<std::pair<double, const PublishedOutcome*>> errors;
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    const scenario::PublishedCase& row = accuracy.CaseOf(outcome);
    if (!outcome.simulated() || !row.step_time || row.split != Split::kCheck) continue;
    errors.emplace_back(outcome.forecast / *row.step_time - 1, &outcome);
  }
  std::stable_sort(errors.begin(), errors.end(), [](const auto& a, const auto& b) {
    return std::abs(a.first) > std::abs(b.first);
  });
  errors.resize(std::min(errors.size(), kMost));
  for (const auto& [error, outcome] : errors) {
    const scenario::PublishedCase& row = accuracy.CaseOf(*outcome);
    table.rows.push_back({accuracy.sources[outcome->source].name, row.name, outcome->model,
                          outcome->gpu, fmt::format("{}", outcome->devices),
                          FormatTime(*row.step_time), FormatTime(outcome->forecast),
                          SignedPerCent(error)});
  }
  return table;
}

PublishedTable Residuals(const PublishedAccuracy& accuracy) {
  PublishedTable table{
      .title = "Remaining errors of fit rows",
      .columns = {{"GPU", kLeft}, {"residual", kLeft}, {"cases"}, {"median %"}},
      .note =
          "The values under `residuals` in calibration profiles are derived from the errors in "
          "the table."};
  for (const validate::FitResidual& residual : accuracy.FitResiduals()) {
    table.rows.push_back(
        {residual.gpu, residual.of, fmt::format("{}", residual.cases), PerCent(residual.median)});
  }
  return table;
}

PublishedTable AimsTable(const PublishedAccuracy& accuracy) {
  PublishedTable table{.title = "Missed targets of check rows",
                       .columns = {{"source", kLeft}, {"figure", kLeft}, {"is"}, {"target"}}};
  const std::vector<validate::PublishedAim> aims = accuracy.Aims();
  for (const validate::PublishedAim& aim : aims) {
    if (aim.met()) continue;
    // Correlations and counts are not percentages.
    const auto number = [&](double value) {
      return aim.unit == validate::AimUnit::kPart    ? PerCent(value) + " %"
             : aim.unit == validate::AimUnit::kCount ? fmt::format("{:.0f}", value)
                                                     : fmt::format("{:.3f}", value);
    };
    const char* const direction = aim.at_least ? "from" : "up to";
    table.rows.push_back({aim.source, aim.what, number(aim.value),
                          fmt::format("{} {}", direction, number(aim.limit))});
  }
  table.note =
      fmt::format("{} of {} targets are met.", aims.size() - table.rows.size(), aims.size());
  return table;
}

}  // namespace

Table PublishedTable::ToTable() const {
  Table table(columns);
  for (const std::vector<std::string>& row : rows) table.AddRow(row);
  return table;
}

std::vector<PublishedTable> PublishedTables(const PublishedAccuracy& accuracy) {
  std::vector<PublishedTable> tables;
  for (auto make : {Headline, StepTimes, Memories, Choices, AimsTable, Transfer, FitProbabilities,
                    Residuals, Worst, NotSimulated, TooLarge, StandIns}) {
    PublishedTable table = make(accuracy);
    if (!table.rows.empty()) tables.push_back(std::move(table));
  }
  return tables;
}

std::string PublishedPreface() {
  return "An error is the forecast value minus the measured value, in percent of the measured "
         "value. The columns 'mean', 'median' and 'p90' describe absolute errors, and the column "
         "'bias' is the mean of signed errors. The column 'rank' is Spearman's rank correlation "
         "between forecast and measurement. Profiles may be fitted to rows marked fit, but never "
         "to rows marked check. In rows marked A, the source specifies the run completely. In "
         "rows marked B, some settings of the run were assumed.";
}

std::string PublishedCounts(const PublishedAccuracy& accuracy) {
  const auto simulated =
      std::count_if(accuracy.outcomes.begin(), accuracy.outcomes.end(),
                    [](const PublishedOutcome& outcome) { return outcome.simulated(); });
  return fmt::format("{} cases: {} simulated, {} not.", accuracy.outcomes.size(), simulated,
                     accuracy.outcomes.size() - static_cast<std::size_t>(simulated));
}

}  // namespace stepcast::report
