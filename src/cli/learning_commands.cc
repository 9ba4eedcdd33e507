#include <map>
#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/calibrate/run_fit.h"
#include "src/calibration/learned_runs.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/option_parts.h"
#include "src/cli/outputs.h"
#include "src/forecast/forecast.h"
#include "src/report/accuracy.h"
#include "src/report/answers.h"
#include "src/report/table.h"
#include "src/scenario/data_root.h"
#include "src/scenario/load.h"
#include "src/study/traced_rates.h"
#include "src/study/traced_steps.h"
#include "src/validate/measured_runs.h"

namespace stepcast::cli {
namespace {

using calibration::LearnedRuns;
using report::RunsReport;

struct CalibrateRunsOptions {
  std::string runs;      // a table, or published steps
  std::string scenario;  // for runs in a table without a scenario
  std::vector<std::string> set;
  std::string profile;  // profile to be rewritten; empty: the one of all runs
  std::string output;   // empty: no profile is written
  bool json = false;
};

// The profile to be rewritten: the file of --profile, or the one of all runs.
tl::expected<std::string, Outcome> ProfileToWrite(const CalibrateRunsOptions& options,
                                                  const RunsReport& report) {
  if (!options.profile.empty()) {
    if (const auto found = scenario::FindInput(options.profile, "")) return *found;
    return tl::make_unexpected(
        WrongInput("file.not-found", fmt::format("--profile {}", options.profile),
                   fmt::format("no profile has this name or path: {}", Quoted(options.profile)),
                   scenario::PlacesTried(options.profile, "")));
  }
  std::map<std::string, std::size_t> profiles;
  for (const std::size_t run : report.learned) ++profiles[report.runs[run].profile];
  if (profiles.size() == 1 && !profiles.begin()->first.empty()) return profiles.begin()->first;
  std::string names;
  for (const auto& [profile, runs] : profiles) {
    const std::string root = scenario::DataRoot() + "/";
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ",
                         profile.empty()             ? "one inside a scenario"
                         : profile.starts_with(root) ? profile.substr(root.size())
                                                     : profile,
                         runs);
  }
  return tl::make_unexpected(WrongInput(
      "runs.profiles", options.runs,
      fmt::format("the runs use several profiles ({}), but the command writes only one profile",
                  names),
      "give --profile the profile to start from; runs on the GPU of this profile have the largest "
      "weight"));
}

RunsReport Learn(const std::string& path, std::vector<validate::SimulatedRun> runs) {
  RunsReport report{.path = path,
                    .runs = std::move(runs),
                    .learned = {},
                    .held_back = {},
                    .fit = {},
                    .written = "",
                    .unwritten = ""};
  std::vector<calibrate::MeasuredRun> measured;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const validate::SimulatedRun& run = report.runs[i];
    if (!run.reason.empty()) continue;
    if (run.split == scenario::Split::kCheck) {
      report.held_back.push_back(i);
      continue;
    }
    report.learned.push_back(i);
    measured.push_back({run.settings, run.measured.seconds(), run.forecast.seconds()});
  }
  report.fit = calibrate::FitRuns(measured);
  return report;
}

// Learns from measured steps the errors of forecasts, and reports how well each run is predicted
// from the others. Writes a profile that forecasts use.
Outcome CalibrateRuns(const CalibrateRunsOptions& options) {
  OptionalOutput output;
  if (auto failed = output.Create(options.output)) return *std::move(failed);
  auto runs = validate::SimulateRuns(options.runs, options.scenario, options.set);
  if (!runs) return WrongInput(runs.error());
  RunsReport report = Learn(options.runs, *std::move(runs));
  if (report.learned.empty()) {
    return WrongInput(
        "runs.none", options.runs,
        "no run can be used: every run is marked 'split: check' or could not be simulated",
        "mark runs with 'split: fit', or remove the column 'split'");
  }
  if (report.fit.configurations.size() > LearnedRuns::kMostRuns) {
    return WrongInput("runs.too-many", options.runs,
                      fmt::format("the table can have at most {} configurations, not {}",
                                  LearnedRuns::kMostRuns, report.fit.configurations.size()),
                      "remove the runs that differ most from the runs that you want to forecast");
  }
  Outcome outcome;
  if (!report.fit.useful) {
    outcome.status = kAnswerIsNo;
    report.unwritten = report.fit.learned
                           ? "no profile is written, because corrections from other runs reduce "
                             "the error of a run by less than one standard error"
                           : "no profile is written, because no two configurations are similar "
                             "enough to learn corrections";
  } else if (options.output.empty()) {
    report.unwritten = "no profile is written; to write a profile, add --output FILE";
  } else {
    const auto profile = ProfileToWrite(options, report);
    if (!profile) return profile.error();
    Diagnostics diagnostics;
    const std::optional<std::string> text = ReadTextFile(*profile, diagnostics);
    if (!text) return WrongInput(diagnostics);
    if (auto failed = output.Write(
            [&] { return report::WithSections(*text, report::LearnedRunsYaml(report)); })) {
      return *std::move(failed);
    }
    const std::size_t learned = report.fit.learned->runs().size();
    report.written = fmt::format(
        "{}: {} with {} configuration{}; to use the profile: --set calibration={}", options.output,
        profile->substr(profile->rfind('/') + 1), learned, learned == 1 ? "" : "s", options.output);
  }
  outcome.output =
      options.json ? report::RunsJson(report) : report::Wrapped(report::RunsText(report));
  return outcome;
}

void DescribeCalibrateRuns(Question& question, CalibrateRunsOptions& options) {
  question.Argument("RUNS", &options.runs).Required();
  question.Option("--scenario", &options.scenario, "SCENARIO");
  question.Option("--set", &options.set, "KEY=VALUE");
  question.Option("--profile", &options.profile, "PROFILE");
  question.Option("--output", &options.output, kFile);
  question.Flag("--json", &options.json);
  AddColumns(question);
}

}  // namespace

Command CalibrateRunsCommand() {
  return MakeCommand<CalibrateRunsOptions>("calibrate runs", DescribeCalibrateRuns, CalibrateRuns);
}

namespace {

struct CalibrateTraceOptions {
  std::string traces;    // a trace, or a folder with one for each rank
  std::string scenario;  // what ran
  std::vector<std::string> set;
  std::string output;  // empty: no profile is written
  bool json = false;
};

// The text of the scenario's profile.
tl::expected<std::string, Outcome> ProfileText(const CalibrateTraceOptions& options,
                                               const scenario::Scenario& scenario) {
  const std::string& file = scenario.calibration->location.file;
  if (file == options.scenario) {
    return tl::make_unexpected(
        WrongInput({{"calibrate.inline-profile", scenario.calibration->location,
                     "the scenario contains the profile itself, but the command needs a profile in "
                     "a separate file",
                     "move the profile to a separate file, and set calibration to the path of the "
                     "file: calibration: my-profile.yaml"}}));
  }
  Diagnostics faults;
  auto text = ReadTextFile(file, faults);
  if (!text) return tl::make_unexpected(WrongInput(faults));
  return *std::move(text);
}

// Learns rates from a traced step, and writes the scenario's profile with them.
Outcome CalibrateTrace(const CalibrateTraceOptions& options) {
  OptionalOutput output;
  if (auto failed = output.Create(options.output)) return *std::move(failed);
  scenario::InputCache cache;
  const auto scenario = scenario::Load(options.scenario, options.set, cache);
  if (!scenario) return WrongInput(scenario.error());
  if (scenario->calibration == nullptr) {
    return WrongInput(
        "calibrate.no-profile", options.scenario,
        "learning needs a calibration profile to start from, but the scenario has no profile",
        "add the GPU type to the topology, for example: gpu: h100-sxm");
  }
  const auto run = forecast::Simulate(*scenario);
  if (!run) return WrongInput(run.error());
  auto traced = study::ReadTracedSteps(options.traces, *run, scenario->cluster->devices());
  if (!traced) return WrongInput(traced.error());
  study::TracedRates rates = study::LearnRates(*scenario, *run, options.traces, *std::move(traced));

  Outcome outcome;
  if (!options.output.empty()) {
    const auto profile = ProfileText(options, *scenario);
    if (!profile) return profile.error();
    if (auto failed = output.Write([&] {
          return report::WithSections(*profile, report::CalibrationYaml(rates.sections));
        })) {
      return *std::move(failed);
    }
    rates.report.written = options.output;
    std::vector<std::string> set = options.set;
    set.push_back("calibration=" + options.output);
    if (scenario->cluster->flat() && !rates.report.tables.empty()) {
      constexpr const char* kNoLink = "cluster.topology.link=null";
      set.emplace_back(kNoLink);
      rates.report.notes.push_back(fmt::format(
          "the learned times of collectives replace the link of the flat cluster, so add --set {}",
          kNoLink));
    }
    scenario::InputCache other;
    const auto learned = scenario::Load(options.scenario, set, other);
    if (!learned) return WrongInput(learned.error());
    const auto figures = forecast::FiguresOf(*learned);
    if (!figures) return WrongInput(figures.error());
    rates.report.learned = figures->step_time;
  }
  outcome.output = options.json ? report::LearnedRatesJson(rates.report)
                                : report::Wrapped(report::LearnedRatesText(rates.report));
  outcome.messages = Warnings(*scenario);
  return outcome;
}

void DescribeCalibrateTrace(Question& question, CalibrateTraceOptions& options) {
  question.Argument("TRACE", &options.traces).Required();
  question.Option("--scenario", &options.scenario, "SCENARIO").Required();
  question.Option("--set", &options.set, "KEY=VALUE");
  question.Option("--output", &options.output, kFile);
  question.Flag("--json", &options.json);
}

}  // namespace

Command CalibrateTraceCommand() {
  return MakeCommand<CalibrateTraceOptions>("calibrate trace", DescribeCalibrateTrace,
                                            CalibrateTrace);
}

}  // namespace stepcast::cli
