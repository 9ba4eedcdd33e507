#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/report/accuracy.h"
#include "src/report/answer.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using calibrate::Configuration;
using calibration::LearnedRuns;
using calibration::RunKind;
using calibration::RunSize;
using validate::AccuracyFigures;
using validate::Pair;
using validate::SimulatedRun;

// The forecast of a run, corrected by other runs.
double Corrected(const SimulatedRun& run, const std::optional<LearnedRuns::Estimate>& estimate) {
  return run.forecast.seconds() * (estimate ? std::exp(estimate->log_ratio) : 1);
}

std::vector<const SimulatedRun*> LearnedFrom(const RunsReport& report) {
  std::vector<const SimulatedRun*> runs;
  for (const std::size_t run : report.learned) runs.push_back(&report.runs[run]);
  return runs;
}

// For each run in `learned`, the estimate from other runs.
std::vector<std::optional<LearnedRuns::Estimate>> LeftOut(const RunsReport& report) {
  std::vector<std::optional<LearnedRuns::Estimate>> estimates(report.learned.size());
  for (const Configuration& configuration : report.fit.configurations) {
    for (const std::size_t member : configuration.members) {
      estimates[member] = configuration.left_out;
    }
  }
  return estimates;
}

// The errors of the step time by three methods: the forecast, the nearest other run, and a fit to
// other runs. For a run to which the correction was fitted, "other runs" means runs with other
// configurations. For a held-back run, "other runs" means all runs to which the correction was
// fitted.
struct RunErrors {
  AccuracyFigures forecast, nearest, learned;
};

// Measured times of runs beside those that were forecast, that the nearest of other runs suggests,
// and that were learned.
struct ErrorPairs {
  std::vector<Pair> forecast, nearest, learned;

  void Add(const SimulatedRun& run, const std::optional<LearnedRuns::Estimate>& estimate,
           const std::vector<const SimulatedRun*>& others) {
    const double measured = run.measured.seconds();
    forecast.push_back({measured, run.forecast.seconds()});
    learned.push_back({measured, Corrected(run, estimate)});
    if (const auto time = TimeByNearest(run, others)) nearest.push_back({measured, *time});
  }
  RunErrors Errors() const { return {FiguresOf(forecast), FiguresOf(nearest), FiguresOf(learned)}; }
};

RunErrors ErrorsOfLearned(const RunsReport& report) {
  const std::vector<const SimulatedRun*> known = LearnedFrom(report);
  const std::vector<std::optional<LearnedRuns::Estimate>> estimates = LeftOut(report);
  ErrorPairs pairs;
  for (std::size_t i = 0; i < known.size(); ++i) {
    // Repeats of the same configuration do not count as neighbors.
    std::vector<const SimulatedRun*> others;
    std::copy_if(known.begin(), known.end(), std::back_inserter(others),
                 [&](const SimulatedRun* other) { return other->settings != known[i]->settings; });
    pairs.Add(*known[i], estimates[i], others);
  }
  return pairs.Errors();
}

RunErrors ErrorsOfHeldBack(const RunsReport& report) {
  const std::vector<const SimulatedRun*> known = LearnedFrom(report);
  ErrorPairs pairs;
  for (const std::size_t held_back : report.held_back) {
    const SimulatedRun& run = report.runs[held_back];
    std::optional<LearnedRuns::Estimate> estimate;
    if (report.fit.learned) estimate = report.fit.learned->At(run.settings);
    pairs.Add(run, estimate, known);
  }
  return pairs.Errors();
}

// The ratio of measured to forecast time, if all runs have the same configuration. 90 % of
// measurements are between `low` and `high`. No value if there are several configurations, or if
// nothing was learned.
struct OneFactor {
  double factor = 1, low = 1, high = 1;
};

std::optional<OneFactor> OneFactorOf(const RunsReport& report) {
  if (!report.fit.learned || report.fit.configurations.size() != 1) return std::nullopt;
  constexpr double kNineOfTen = 1.645;  // standard deviations
  const LearnedRuns::Estimate estimate =
      report.fit.learned->At(report.fit.configurations.front().run.settings);
  const double spread = kNineOfTen * estimate.deviation;
  return OneFactor{std::exp(estimate.log_ratio), std::exp(estimate.log_ratio - spread),
                   std::exp(estimate.log_ratio + spread)};
}

std::string InPerCent(double part) { return Decimal(kHundred * part, 1); }

// "12 % longer than forecast"
std::string Longer(double log_ratio) {
  const double change = std::exp(log_ratio) - 1;
  constexpr double kNothing = 0.005;
  if (std::abs(change) < kNothing) return "as long as forecast";
  return fmt::format("{} % {} than forecast", Decimal(kHundred * std::abs(change), 0),
                     change < 0 ? "shorter" : "longer");
}

void AddRow(Table& table, const std::string& what, const AccuracyFigures& figures) {
  if (figures.cases == 0) return;
  table.AddRow({what, fmt::format("{}", figures.cases), InPerCent(figures.mean),
                InPerCent(figures.median), InPerCent(figures.p90),
                Signed(kHundred * figures.bias, 1)});
}

void AddRows(Table& table, const RunErrors& errors, const char* learned) {
  AddRow(table, "forecast", errors.forecast);
  AddRow(table, "nearest run alone", errors.nearest);
  AddRow(table, learned, errors.learned);
}

Table ErrorTable(const char* heading) {
  return Table(
      {{heading, Align::kLeft}, {"runs"}, {"mean %"}, {"median %"}, {"p90 %"}, {"bias %"}});
}

// Names of runs without a similar configuration among the other runs.
std::vector<std::string> FarRuns(const RunsReport& report) {
  std::vector<std::string> names;
  if (OneFactorOf(report)) return names;
  for (const Configuration& configuration : report.fit.configurations) {
    if (configuration.left_out) continue;
    for (const std::size_t member : configuration.members) {
      names.push_back(report.runs[report.learned[member]].name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Names of learned runs with unusually large errors: their settings may differ from the table's.
std::vector<std::string> DoubtfulRuns(const RunsReport& report) {
  constexpr double kSeldom = 1.5;
  std::vector<std::string> names;
  for (const SimulatedRun* run : LearnedFrom(report)) {
    const double apart = run->measured / run->forecast;
    if (apart > kSeldom || apart < 1 / kSeldom) names.push_back(run->name);
  }
  return names;
}

// Reasons why runs are not simulated, each with its runs.
std::map<std::string, std::vector<std::string>> NotSimulated(const RunsReport& report) {
  std::map<std::string, std::vector<std::string>> reasons;
  for (const SimulatedRun& run : report.runs) {
    if (!run.reason.empty()) reasons[run.reason].push_back(run.name);
  }
  return reasons;
}

// "a, b, c and 12 more"
std::string Named(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  const std::size_t shown = std::min(names.size(), kMost);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<int>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string MemoryText(const RunsReport& report) {
  std::map<std::string_view, std::vector<Pair>> pairs;
  for (const SimulatedRun& run : report.runs) {
    for (const validate::SimulatedMemory& memory : run.memory) {
      pairs[Name(memory.kind)].push_back({static_cast<double>(memory.measured.count()),
                                          static_cast<double>(memory.forecast.count())});
    }
  }
  if (pairs.empty()) return "";
  Table table = ErrorTable("error of peak memory");
  for (const auto& [kind, of_kind] : pairs) {
    AddRow(table, std::string(kind), FiguresOf(of_kind));
  }
  return "\n" + table.ToString();
}

Json OneFactorJson(const RunsReport& report) {
  const std::optional<OneFactor> one = OneFactorOf(report);
  if (!one) return Json();
  return Json{{"measured_over_forecast", one->factor}, {"low", one->low}, {"high", one->high}};
}

Json ErrorsJson(const RunErrors& errors) {
  return Json{{"forecast", ErrorJson("runs", errors.forecast)},
              {"nearest_run", ErrorJson("runs", errors.nearest)},
              {"learned", ErrorJson("runs", errors.learned)}};
}

}  // namespace

Json ErrorJson(const char* count, const AccuracyFigures& figures) {
  if (figures.cases == 0) return Json();
  return Json{{count, figures.cases},
              {"mean", figures.mean},
              {"median", figures.median},
              {"p90", figures.p90},
              {"bias", figures.bias}};
}

std::string RunsText(const RunsReport& report) {
  const std::size_t simulated = report.learned.size() + report.held_back.size();
  const auto counted = [](std::size_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::string out = fmt::format("{}: {}, {} simulated; the profile learns from {} of {}\n",
                                report.path, counted(report.runs.size(), "run"), simulated,
                                counted(report.learned.size(), "run"),
                                counted(report.fit.configurations.size(), "configuration"));
  for (const auto& [reason, names] : NotSimulated(report)) {
    out += fmt::format("  not simulated, {}: {}\n", reason, Named(names));
  }
  out += "\n";
  Table own = ErrorTable("error of step time");
  RunErrors errors = ErrorsOfLearned(report);
  if (OneFactorOf(report)) errors.learned = {};  // there are no other configurations
  AddRows(own, errors, "learned from the other configurations");
  out += own.ToString();
  if (!report.held_back.empty()) {
    Table held_back = ErrorTable("error on held-back runs");
    AddRows(held_back, ErrorsOfHeldBack(report), "learned");
    out += "\n" + held_back.ToString();
  }
  out += MemoryText(report) + "\n";
  if (const std::optional<OneFactor> one = OneFactorOf(report)) {
    constexpr int kDigits = 3;
    out += fmt::format(
        "a step of the configuration takes {} times as long as the forecast ({} to {} in 90 % of "
        "measurements); no other configuration confirms the factor\n",
        Decimal(one->factor, kDigits), Decimal(one->low, kDigits), Decimal(one->high, kDigits));
  }
  if (const std::vector<std::string> far = FarRuns(report); !far.empty()) {
    out += fmt::format(
        "runs that do not affect the profile, because they are not similar to any other run: {}\n",
        Named(far));
  }
  if (const std::vector<std::string> doubtful = DoubtfulRuns(report); !doubtful.empty()) {
    out += fmt::format(
        "the step times of some runs differ from the forecasts by a factor of more than 1.5, "
        "although the profile learned from the runs. Check that the table has all settings of the "
        "runs: {}\n",
        Named(doubtful));
  }
  for (const calibrate::SettingResidual& setting : report.fit.settings) {
    out +=
        fmt::format("steps with `{}` take {} ({} runs); steps without this setting take {}\n",
                    setting.setting, Longer(setting.with), setting.runs, Longer(setting.without));
  }
  if (!report.written.empty()) out += fmt::format("wrote {}\n", report.written);
  if (!report.unwritten.empty()) out += fmt::format("{}\n", report.unwritten);
  return out;
}

std::string RunsJson(const RunsReport& report) {
  const std::vector<std::optional<LearnedRuns::Estimate>> estimates = LeftOut(report);
  std::map<std::size_t, std::optional<LearnedRuns::Estimate>> by_run;
  for (std::size_t i = 0; i < report.learned.size(); ++i) by_run[report.learned[i]] = estimates[i];
  for (const std::size_t run : report.held_back) {
    if (report.fit.learned) by_run[run] = report.fit.learned->At(report.runs[run].settings);
  }
  AnswerTable runs{Keys("name split reason measured_s forecast_s learned_s known")};
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const SimulatedRun& run = report.runs[i];
    const auto simulated = [&](Time time) {
      return run.reason.empty() ? Cell(time) : Cell(Json());
    };
    const auto found = by_run.find(i);
    const bool known = found != by_run.end() && found->second;
    runs.Add({run.name, Name(run.split), run.reason, simulated(run.measured),
              simulated(run.forecast), known ? Json(Corrected(run, found->second)) : Json(),
              known ? Json(found->second->known) : Json()});
  }
  AnswerTable settings{Keys("setting runs measured_over_forecast of_the_others")};
  for (const calibrate::SettingResidual& setting : report.fit.settings) {
    settings.Add(
        {setting.setting, setting.runs, std::exp(setting.with), std::exp(setting.without)});
  }
  return Text(Json{{"stepcast", 1},
                   {"configurations", report.fit.configurations.size()},
                   {"leave_one_configuration_out", ErrorsJson(ErrorsOfLearned(report))},
                   {"one_factor", OneFactorJson(report)},
                   {"held_back", ErrorsJson(ErrorsOfHeldBack(report))},
                   {"far", FarRuns(report)},
                   {"doubtful", DoubtfulRuns(report)},
                   {"settings", settings.ToJson()},
                   {"runs", runs.ToJson()},
                   {"written", !report.written.empty()}});
}

std::string LearnedRunsYaml(const RunsReport& report) {
  std::string out = fmt::format(
      "# Written by `stepcast calibrate runs {}`: these runs correct forecasts of similar "
      "runs.\nruns:\n  cases:\n",
      report.path);
  for (const calibration::LearnedRun& run : report.fit.learned->runs()) {
    out += fmt::format("    - {{measured_over_forecast: {:.5f}, repeats: {}",
                       std::exp(run.log_ratio), run.repeats);
    for (std::size_t i = 0; i < calibration::kRunSizes; ++i) {
      out += fmt::format(", {}: {}", Name(static_cast<RunSize>(i)), run.settings.sizes[i]);
    }
    for (std::size_t i = 0; i < calibration::kRunKinds; ++i) {
      out += fmt::format(", {}: \"{}\"", Name(static_cast<RunKind>(i)), run.settings.kinds[i]);
    }
    out += "}\n";
  }
  return out;
}

}  // namespace stepcast::report
