#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/files.h"
#include "src/base/quantity.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/option_parts.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/cli/progress.h"
#include "src/forecast/collective_forecast.h"
#include "src/forecast/explanation.h"
#include "src/forecast/forecast.h"
#include "src/forecast/training_run.h"
#include "src/forecast/warnings.h"
#include "src/formats/measured_memory.h"
#include "src/lowering/lowering.h"
#include "src/plan/rank_grid.h"
#include "src/program/description.h"
#include "src/program/program.h"
#include "src/program/validator.h"
#include "src/report/answers.h"
#include "src/report/command_text.h"
#include "src/report/pages.h"
#include "src/report/table.h"
#include "src/report/trace.h"
#include "src/scenario/load.h"
#include "src/study/comparison.h"
#include "src/study/measured_step.h"
#include "src/study/run_time_study.h"
#include "src/study/stage_memory.h"
#include "src/study/training_question.h"

namespace stepcast::cli {
namespace {

std::string Verdict(const std::vector<program::Violation>& violations) {
  if (violations.empty()) {
    return "valid: conflicting uses of buffers are ordered, and every allocated buffer is "
           "released\n";
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
          fmt::format("{}stage {}, rank {} and {} other ranks\n", i > 0 ? "\n" : "",
                      labels.distinct()[i].stage, labels.FirstRank(i), labels.ranks_of_each() - 1);
    }
    outcome.output += Verdict(violations) + "\n" + program::Dump(programs[i]);
  }
  outcome.status = valid ? kDone : kFailed;
  outcome.messages = Warnings(scenario);
  if (!valid) {
    outcome.messages += "stepcast: the step program is invalid, because of a bug in stepcast\n";
  }
  return outcome;
}

// Below an answer, after an empty line; nothing for nothing.
std::string OnItsOwnLines(const std::string& text) { return text.empty() ? "" : "\n" + text; }

struct SimulateOptions {
  ScenarioFiles files;
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  report::CommandWords command;  // forecasts the step, for proposals
  std::string network;           // "analytic", "flow", "message"; empty: from the scenario
  AnswerForms forms;
  std::string trace;      // file to write; empty: none
  int trace_steps = 1;    // number of steps in traces
  std::string trace_dir;  // folder of traces for rank analyzers; empty: none
  // Whether to draw the step below the forecast; neither: on a terminal.
  bool timeline = false, no_timeline = false;
  bool program = false;  // print the step program instead of the forecast
  EmitOptions emit;
  study::TrainingQuestion training;
};

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
  if (auto fault = CheckEmit(*scenario, options.scenario, options.emit)) return *std::move(fault);
  TraceFolder traces;
  if (auto failed = traces.Create(options.trace_dir)) return *failed;
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;

  // Without outputs that show the run, its figures suffice.
  std::optional<bool> forced;
  if (options.timeline || options.no_timeline) forced = options.timeline;
  const auto timeline = options.forms.json ? std::nullopt : StdoutStyle(forced);
  const bool shown = timeline || !options.trace.empty() || !options.trace_dir.empty() ||
                     !options.forms.report.empty();
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
  }

  report::Fitting fitting;
  if (!figures.memory.fits) {
    fitting = study::SettingsThatFit(options.scenario, set, cache);
    fitting.command = options.command;
    if (!options.network.empty())
      fitting.command.set.push_back("cluster.network=" + options.network);
  }
  std::string below = OnItsOwnLines(report::FittingText(fitting));
  if (timeline) below += "\n" + report::TimelineText(*run, *timeline);
  Outcome outcome =
      printer.Print({.text = [&] { return report::SimulateText(*scenario, figures, training); },
                     .json =
                         [&] {
                           return report::SimulateJson(*scenario, figures, stopwatch.Seconds(),
                                                       training, fitting);
                         },
                     .page = [&] { return report::SimulatePage(*scenario, *run, options.trace); },
                     .below = std::move(below),
                     .memory = &forecast::LeastProbable(figures)},
                    Warnings(*scenario));
  if (outcome.status == kFailed || outcome.status == kWrongInput) return outcome;
  if (!MeetsDeadline(training, forecast::TrainedStepOf(figures))) {
    outcome.status = kAnswerIsNo;
  }
  if (auto failure = EmitPlan(*scenario, options.scenario, options.emit, outcome.messages)) {
    return *std::move(failure);
  }
  return outcome;
}

struct CompareOptions : study::ComparisonQuestion {
  ScenarioFiles files;               // the options that describe both plans
  std::string memory;                // PyTorch's measurement of a job's memory, instead of B
  std::vector<std::string> fail_if;  // guards (study/comparison.h)
  AnswerForms forms;
};

Outcome CompareMemory(const CompareOptions& options) {
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
  Diagnostics faults;
  scenario::InputCache cache;
  auto scenario = scenario::Load(options.a, options.set, cache);
  if (!scenario) faults = std::move(scenario.error());
  std::optional<formats::MeasuredMemory> measured;
  if (const auto text = ReadAnyFile(options.memory, faults)) {
    auto parsed = formats::ParseMeasuredMemory(*text, options.memory);
    if (parsed) {
      measured = *std::move(parsed);
    } else {
      faults.insert(faults.end(), parsed.error().begin(), parsed.error().end());
    }
  }
  if (!faults.empty() || !measured) return WrongInput(faults);
  const auto forecast = forecast::FiguresOf(*scenario);
  if (!forecast) return WrongInput(forecast.error());
  forecast::WarnOfOptimizerStates(forecast->memory, *scenario);
  forecast::WarnOfCommunicationSettings(*scenario);

  const report::MeasuredComparison comparison{.scenario = scenario->name,
                                              .file = options.memory,
                                              .measured = &*measured,
                                              .forecast = &forecast->memory};
  return printer.Print(
      {.text = [&] { return report::MeasuredMemoryText(comparison); },
       .json = [&] { return report::MeasuredMemoryJson(comparison, printer.Seconds()); }},
      Warnings(*scenario) + Lines("note", measured->notes));
}

// Compares two plans, or one plan's memory with a measurement.
Outcome Compare(const CompareOptions& options) {
  if (!options.memory.empty()) return CompareMemory(options);
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
  Diagnostics faults;
  const std::vector<study::Guard> guards = study::ReadGuards(options.fail_if, faults);
  const auto both = study::Compare(options);
  if (!both) faults.insert(faults.end(), both.error().begin(), both.error().end());
  if (!faults.empty()) return WrongInput(faults);

  const report::ComparedPlan a{TitleOf(options.a), &both->a, &both->of_a};
  const report::ComparedPlan b{TitleOf(options.b.empty() ? options.a : options.b), &both->b,
                               &both->of_b};
  std::vector<report::GuardVerdict> verdicts;
  for (const study::Guard& guard : guards) {
    verdicts.push_back(VerdictOf(guard, both->of_a, both->of_b));
  }
  std::string warnings = Warnings(both->a);
  if (std::string more = Warnings(both->b); more != warnings) warnings += more;
  Outcome outcome =
      printer.Print({.text = [&] { return report::CompareText(a, b, verdicts); },
                     .json = [&] { return report::CompareJson(a, b, printer.Seconds(), verdicts); },
                     .page = [&] { return report::ComparePage(a, b, verdicts); }},
                    std::move(warnings));
  if (outcome.status != kDone) return outcome;
  for (const report::GuardVerdict& verdict : verdicts) {
    if (!verdict.failed) continue;
    outcome.status = kAnswerIsNo;
    outcome.messages += fmt::format("stepcast: guard {} {}\n", verdict.guard, verdict.sentence);
  }
  return outcome;
}

struct CollectiveOptions {
  std::string scenario;
  std::vector<std::string> set;
  std::string op = "all_reduce";
  std::string from = "1 KiB";  // sizes double from here ...
  std::string to = "8 GiB";    // ... to here
  forecast::CollectiveGroup group;
  std::string network;  // "analytic", "flow", "message"; empty: from the scenario
  AnswerForms forms;
};

Outcome Collective(const CollectiveOptions& options) {
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
  Diagnostics faults;
  const auto op = ReadCollective("--op", options.op, faults);
  const auto from = ReadSize("--from", options.from, faults);
  const auto to = ReadSize("--to", options.to, faults);
  if (from && to && *from > *to) {
    faults.push_back(
        {"command.wrong-use",
         {"--to " + options.to, 0, 0},
         "the value of --to is smaller than the value of --from: " + Quoted(options.to),
         "write at least the value of --from: " + FormatBytes(*from)});
  }
  scenario::InputCache cache;
  std::vector<std::string> set = options.set;
  if (!options.network.empty()) set.push_back("cluster.network=" + options.network);
  const auto scenario = scenario::Load(options.scenario, set, cache);
  if (!scenario) faults.insert(faults.end(), scenario.error().begin(), scenario.error().end());
  if (!faults.empty()) return WrongInput(faults);

  const auto forecast = forecast::ForecastCollective(*scenario, *op, options.group, *from, *to);
  if (!forecast) return WrongInput(forecast.error());
  Result<std::vector<forecast::CollectiveSteps>> steps;
  if (!options.forms.report.empty()) {
    steps = forecast::StepsOf(*scenario, options.group, *forecast);
    if (!steps) return WrongInput(steps.error());
  }
  return printer.Print(
      {.text = [&] { return report::CollectiveText(scenario->name, *forecast); },
       .json = [&] { return report::CollectiveJson(scenario->name, *forecast); },
       .csv = [&] { return report::CollectiveCsv(*forecast); },
       .page = [&] { return report::CollectivePage(*scenario, *forecast, *steps); }},
      Warnings(*scenario));
}

// Whether --measured names a trace or a folder, and not a time.
bool IsTrace(const std::string& measured) {
  std::error_code error;
  return measured.ends_with(".json") || measured.ends_with(".gz") ||
         std::filesystem::exists(measured, error);
}

// Nothing without a text.
std::optional<Time> ReadMeasured(const std::string& text, Diagnostics& faults) {
  if (text.empty()) return std::nullopt;
  const auto time = ParseTime(text);
  if (time && *time > Time()) return *time;
  faults.push_back(
      {"command.wrong-use",
       {"--measured " + text, 0, 0},
       time ? "the measured time must be longer than zero: " + Quoted(text) : time.error().message,
       "write a step time (--measured '5.2 s'), a trace, or a folder with one trace for each "
       "rank"});
  return std::nullopt;
}

struct ExplainOptions {
  ScenarioFiles files;
  std::string scenario;
  std::vector<std::string> set;
  // "5.2 s", a trace, or a folder of traces; empty: nothing was measured.
  std::string measured;
  AnswerForms forms;
};

// Why the step takes its time.
Outcome Explain(const ExplainOptions& options) {
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
  scenario::InputCache cache;
  auto scenario = scenario::Load(options.scenario, options.set, cache);
  Diagnostics faults;
  const bool traced = IsTrace(options.measured);
  const std::optional<Time> time = traced ? std::nullopt : ReadMeasured(options.measured, faults);
  if (!scenario) faults.insert(faults.end(), scenario.error().begin(), scenario.error().end());
  if (!faults.empty()) return WrongInput(faults);
  const auto explanation = forecast::Explain(*scenario);
  if (!explanation) return WrongInput(explanation.error());
  std::optional<report::MeasuredStep> measured;
  if (time || traced) {
    auto explained = traced ? study::ExplainTraced(options.measured, options.scenario, options.set,
                                                   *scenario, cache)
                            : study::ExplainMeasured(options.scenario, options.set, *scenario,
                                                     explanation->forecast, *time, cache);
    if (!explained) return WrongInput(explained.error());
    measured = *std::move(explained);
  }
  forecast::WarnOfOptimizerStates(explanation->forecast.memory, *scenario);
  forecast::WarnOfCommunicationSettings(*scenario);
  const report::MeasuredStep* const shown = measured ? &*measured : nullptr;
  return printer.Print(
      {.text = [&] { return report::ExplainText(*scenario, *explanation, shown); },
       .json =
           [&] { return report::ExplainJson(*scenario, *explanation, printer.Seconds(), shown); },
       .page = [&] { return report::ExplainPage(*scenario, *explanation, shown); },
       .memory = &forecast::LeastProbable(explanation->forecast)},
      Warnings(*scenario));
}

struct MemoryOptions : study::MemoryQuestion {
  ScenarioFiles files;
  report::CommandWords command;  // forecasts the step, for proposals
  AnswerForms forms;
};

// Status kAnswerIsNo if the scenario's own stage does not fit, or with `max_micro_batch` if no
// micro-batch fits.
Outcome Memory(const MemoryOptions& options) {
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
  auto memory = study::MemoryOfStages(options);
  if (!memory) return WrongInput(memory.error());
  if (memory->fitting) memory->fitting->command = options.command;
  const report::Fitting* const fitting = memory->fitting ? &*memory->fitting : nullptr;
  return printer.Print(
      {.text = [&] { return report::MemoryText(memory->scenario, memory->report); },
       .json =
           [&] {
             return report::MemoryJson(memory->scenario, memory->report, printer.Seconds(),
                                       fitting);
           },
       .page = [&] { return report::MemoryPage(memory->scenario, memory->report, fitting); },
       .below = fitting == nullptr ? "" : OnItsOwnLines(report::FittingText(*fitting)),
       .memory = &memory->own,
       .judged = options.max_micro_batch ? "the plan with the largest micro-batch" : "the plan"},
      Warnings(memory->scenario));
}

void DescribeSimulate(Question& question, SimulateOptions& options) {
  AddScenarioFiles(question, options.files, options.set);
  question.Flag("--json", &options.forms.json);
  question.Option("--trace", &options.trace, kFile);
  AddTraceFolder(question, options.trace_dir);
  question.Option("--trace-steps", &options.trace_steps, "N").Between(1, 60);
  AddReport(question, options.forms.report);
  question.Flag("--timeline", &options.timeline).Excludes({"--json"});
  question.Flag("--no-timeline", &options.no_timeline).Excludes({"--timeline"});
  AddNetwork(question, options.network);
  question.Flag("--program", &options.program)
      .Excludes({"--json", "--trace", "--trace-dir", "--report", "--timeline"});
  options.training.Describe(question);
  AddFitProbability(question, options.forms.fit_probability);
  AddEmit(question, options.emit.folder, options.emit.force);
}

void DescribeMemory(Question& question, MemoryOptions& options) {
  AddScenarioFiles(question, options.files, options.set);
  question.Flag("--json", &options.forms.json);
  question.Flag("--max-micro-batch", &options.max_micro_batch);
  AddReport(question, options.forms.report);
  AddFitProbability(question, options.forms.fit_probability);
}

void DescribeCompare(Question& question, CompareOptions& options) {
  question.Argument("A", &options.a).Required();
  question.Argument("B", &options.b);
  question.Option("--set", &options.set, "KEY=VALUE");
  question.Option("--set-a", &options.set_a, "KEY=VALUE");
  question.Option("--set-b", &options.set_b, "KEY=VALUE");
  question.Option("--memory", &options.memory, "FILE")
      .Excludes({"B", "--set-a", "--set-b", "--report"});
  question.Option("--fail-if", &options.fail_if, "GUARD").Excludes({"--memory"});
  AddImport(question, options.files);
  question.Flag("--json", &options.forms.json);
  AddReport(question, options.forms.report);
  AddColumns(question);
}

void DescribeExplain(Question& question, ExplainOptions& options) {
  AddScenarioFiles(question, options.files, options.set);
  question.Option("--measured", &options.measured, "TIME|TRACE");
  question.Flag("--json", &options.forms.json);
  AddReport(question, options.forms.report);
  AddFitProbability(question, options.forms.fit_probability);
}

void DescribeCollective(Question& question, CollectiveOptions& options) {
  AddScenario(question, options.scenario, options.set);
  std::vector<std::string> collectives;
  for (const CollectiveKind kind : kCollectiveKinds) collectives.emplace_back(Name(kind));
  question
      .Option(
          "--op", &options.op, "NAME",
          fmt::format("The collective to forecast: {} (default: all_reduce)", CollectiveNames()))
      .Offers(collectives);
  question.Option("--from", &options.from, "BYTES");
  question.Option("--to", &options.to, "BYTES");
  constexpr int kMost = 1'000'000;
  question.Option("--ranks", &options.group.ranks, "N").Between(1, kMost);
  question.Option("--nodes", &options.group.nodes, "N").Between(1, kMost);
  question.Option("--group", &options.group.name, "NAME").Excludes({"--ranks", "--nodes"});
  question.Flag("--siblings", &options.group.siblings);
  AddNetwork(question, options.network);
  AddJsonAndCsv(question, options.forms.json, options.forms.csv);
  AddReport(question, options.forms.report);
  AddColumns(question);
}

// Runs `command` on one of two plans. `set` holds the overrides of this plan, `both` those of both;
// options such as --nodes are added to `both`.
Outcome RunOnPlan(ScenarioFiles files, std::string& plan, std::vector<std::string>& both,
                  const std::vector<std::string>& set, const std::function<Outcome()>& command) {
  files.files = {plan};
  std::vector<std::string> all = both;
  all.insert(all.end(), set.begin(), set.end());
  const std::size_t own = all.size();
  return RunOn(files, plan, all, [&] {
    for (std::size_t i = own; i < all.size(); ++i) {
      if (std::find(both.begin(), both.end(), all[i]) == both.end()) both.push_back(all[i]);
    }
    return command();
  });
}

}  // namespace

Command SimulateCommand() {
  return MakeCommand<SimulateOptions>("simulate", DescribeSimulate, [](SimulateOptions& options) {
    options.command = CommandOn("simulate", options.files, options.set);
    const WorkNotice notice("simulating a step of " + Named(options.files));
    return RunOn(options.files, options.scenario, options.set, [&] { return Simulate(options); });
  });
}

Command MemoryCommand() {
  return MakeCommand<MemoryOptions>("memory", DescribeMemory, [](MemoryOptions& options) {
    options.command = CommandOn("simulate", options.files, options.set);
    const WorkNotice notice("simulating a step at each ZeRO stage of " + Named(options.files));
    return RunOn(options.files, options.scenario, options.set, [&] { return Memory(options); });
  });
}

Command CompareCommand() {
  return MakeCommand<CompareOptions>("compare", DescribeCompare, [](CompareOptions& options) {
    if (options.b.empty() && options.memory.empty() && options.set_a.empty() &&
        options.set_b.empty()) {
      return WrongInput("command.wrong-use", "command line", "the second scenario (B) is missing",
                        "write a second scenario, or change a setting, for example: " +
                            report::CommandLine({{"stepcast", "compare", options.a, "--set-b",
                                                  "training.micro_batch_size=8"},
                                                 {}}));
    }
    const WorkNotice notice("simulating a step of each of the two plans");
    return RunOnPlan(options.files, options.a, options.set, options.set_a, [&] {
      if (options.b.empty()) return Compare(options);
      return RunOnPlan(options.files, options.b, options.set, options.set_b,
                       [&] { return Compare(options); });
    });
  });
}

Command ExplainCommand() {
  return MakeCommand<ExplainOptions>("explain", DescribeExplain, [](ExplainOptions& options) {
    const WorkNotice notice(
        "simulating a step with unchanged resources and with faster resources: " +
        Named(options.files));
    return RunOn(options.files, options.scenario, options.set, [&] { return Explain(options); });
  });
}

Command CollectiveCommand() {
  return MakeCommand<CollectiveOptions>(
      "collective", DescribeCollective, [](const CollectiveOptions& options) {
        const WorkNotice notice("forecasting a collective at each size on the cluster of " +
                                options.scenario);
        return Collective(options);
      });
}

namespace {

struct RunTimeOptions : study::RunTimeQuestion {
  ScenarioFiles files;
  AnswerForms forms;
};

Outcome RunTime(const RunTimeOptions& options) {
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
  const auto answer = study::AnswerRunTime(options);
  if (!answer) return WrongInput(answer.error());
  return printer.Print(
      {.text = [&] { return report::RunTimeText(answer->scenario, answer->run); },
       .json =
           [&] { return report::RunTimeJson(answer->scenario, answer->run, printer.Seconds()); },
       .page = [&] { return report::RunTimePage(answer->scenario, answer->run); },
       .memory = &forecast::LeastProbable(answer->run.step)},
      Warnings(answer->scenario));
}

}  // namespace

Command RunTimeCommand() {
  const auto describe = [](Question& question, RunTimeOptions& options) {
    AddScenarioFiles(question, options.files, options.set);
    options.Describe(question);
    question.Flag("--json", &options.forms.json);
    AddReport(question, options.forms.report);
    AddFitProbability(question, options.forms.fit_probability);
  };
  return MakeCommand<RunTimeOptions>("run-time", describe, [](RunTimeOptions& options) {
    const WorkNotice notice("simulating a step of " + Named(options.files));
    return RunOn(options.files, options.scenario, options.set, [&] { return RunTime(options); });
  });
}

}  // namespace stepcast::cli
