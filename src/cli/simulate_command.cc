#include "src/cli/simulate_command.h"

#include <utility>

#include "fmt/format.h"
#include "src/cli/fit_answer.h"
#include "src/cli/optional_output.h"
#include "src/cli/stopwatch.h"
#include "src/cli/trace_file.h"
#include "src/cli/trace_folder.h"
#include "src/cli/warnings.h"
#include "src/forecast/communication_warnings.h"
#include "src/forecast/forecast.h"
#include "src/forecast/optimizer_states_warning.h"
#include "src/forecast/training_run.h"
#include "src/lowering/lowering.h"
#include "src/plan/rank_labels.h"
#include "src/program/dump.h"
#include "src/program/program.h"
#include "src/program/validator.h"
#include "src/report/simulate_json.h"
#include "src/report/simulate_page.h"
#include "src/report/simulate_text.h"
#include "src/report/text_wrap.h"
#include "src/report/trace.h"
#include "src/scenario/load.h"

namespace stepcast::cli {
namespace {

std::string Verdict(const std::vector<program::Violation>& violations) {
  if (violations.empty()) {
    return "valid: conflicting uses are ordered, buffers are allocated and released in pairs\n";
  }
  std::string text = fmt::format("not valid, {} violations:\n", violations.size());
  for (const program::Violation& violation : violations) {
    text += fmt::format("  {}: {}\n", Name(violation.kind), violation.message);
  }
  return text;
}

Outcome ShowProgram(const scenario::Scenario& scenario) {
  const plan::RankLabels labels(scenario.plan);
  const std::vector<program::Program> programs = lowering::Lower(scenario);
  Outcome outcome;
  bool valid = true;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const std::vector<program::Violation> violations = program::Validate(programs[i]);
    valid = valid && violations.empty();
    if (programs.size() > 1) {
      outcome.output +=
          fmt::format("{}stage {}, rank {} and {} more\n", i > 0 ? "\n" : "",
                      labels.distinct()[i].stage, labels.FirstRank(i), labels.ranks_of_each() - 1);
    }
    outcome.output += Verdict(violations) + "\n" + program::Dump(programs[i]);
  }
  outcome.status = valid ? kDone : kFailed;
  outcome.messages = Warnings(scenario);
  if (!valid) {
    outcome.messages += "stepcast: the step program is not valid: a bug of stepcast\n";
  }
  return outcome;
}

}  // namespace

Outcome Simulate(const SimulateOptions& options) {
  const Stopwatch stopwatch;
  scenario::InputCache cache;
  std::vector<std::string> set = options.set;
  if (!options.network.empty()) set.push_back("cluster.network=" + options.network);
  auto scenario = scenario::Load(options.scenario, set, cache);
  Diagnostics faults;
  const forecast::TrainingTarget training = study::ReadTraining(options.training, faults);
  if (!scenario) faults.insert(faults.end(), scenario.error().begin(), scenario.error().end());
  if (!faults.empty()) return WrongInput(faults);
  if (options.program) return ShowProgram(*scenario);

  TraceFile trace;
  if (auto failed = trace.Create(options.trace)) return *failed;
  if (auto fault = CheckEmit(options.emit)) return *std::move(fault);
  TraceFolder traces;
  if (auto failed = traces.Create(options.trace_dir)) return *failed;
  OptionalOutput page;
  if (auto failed = page.Create(options.report)) return *failed;

  // Without what shows the run its figures are enough.
  const bool timeline = options.timeline && !options.json;
  const bool shown =
      timeline || !options.trace.empty() || !options.trace_dir.empty() || !options.report.empty();
  std::optional<forecast::Run> run;
  forecast::Forecast figures;
  if (shown) {
    auto simulated = forecast::Simulate(*scenario);
    if (!simulated) return WrongInput(simulated.error());
    run = *std::move(simulated);
    figures = run->forecast;
  } else {
    auto found = forecast::FiguresOf(*scenario);
    if (!found) return WrongInput(found.error());
    figures = *std::move(found);
  }
  forecast::WarnOfOptimizerStates(figures.memory, *scenario);
  forecast::WarnOfCommunicationSettings(*scenario);

  if (run) {
    const int rank = run->critical_class().first_rank;
    const int ranks = scenario->cluster->devices();
    if (auto failed = trace.Write(*run, {scenario->name, rank, ranks}, options.trace_steps))
      return *failed;
    if (auto failed = traces.Write(report::ForecastProcesses(*run, options.trace_steps),
                                   scenario->name, ranks)) {
      return *failed;
    }
    if (auto failed = page.Write([&] { return report::SimulatePage(*scenario, *run); })) {
      return *failed;
    }
  }

  Outcome outcome;
  outcome.output = options.json
                       ? report::SimulateJson(*scenario, figures, stopwatch.Seconds(), training)
                       : report::Wrapped(report::SimulateText(*scenario, figures, training));
  if (timeline) outcome.output += "\n" + report::TimelineText(*run, *options.timeline);
  outcome.messages = Warnings(*scenario);
  const forecast::MemoryForecast& memory = forecast::LeastProbable(figures);
  AnswerFit(memory.verdict(), memory.fit_probability, options.fit_probability, outcome);
  if (!MeetsDeadline(training, forecast::TrainedStepOf(figures))) {
    outcome.status = kAnswerIsNo;
  }
  if (auto failure = EmitPlan(*scenario, options.scenario, options.emit, outcome.messages)) {
    return *std::move(failure);
  }
  return outcome;
}

}  // namespace stepcast::cli
