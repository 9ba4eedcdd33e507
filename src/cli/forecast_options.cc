#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/files.h"
#include "src/base/quantity.h"
#include "src/cli/collective_words.h"
#include "src/cli/command_options.h"
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
#include "src/report/dumps.h"
#include "src/report/pages.h"
#include "src/report/table.h"
#include "src/report/trace.h"
#include "src/scenario/load.h"
#include "src/study/fitting_settings.h"
#include "src/study/guard.h"
#include "src/study/measured_step.h"

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

// Below an answer, after an empty line; nothing for nothing.
std::string OnItsOwnLines(const std::string& text) { return text.empty() ? "" : "\n" + text; }

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

  // Without outputs that show the run, its figures suffice.
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

  report::Fitting fitting;
  if (!figures.memory.fits) {
    fitting = study::SettingsThatFit(options.scenario, set, cache);
    fitting.command = options.command;
    if (!options.network.empty())
      fitting.command.set.push_back("cluster.network=" + options.network);
  }
  Outcome outcome;
  if (options.json) {
    outcome.output =
        report::SimulateJson(*scenario, figures, stopwatch.Seconds(), training, fitting);
  } else {
    outcome.output = report::Wrapped(report::SimulateText(*scenario, figures, training)) +
                     OnItsOwnLines(report::FittingText(fitting));
  }
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

namespace {

Outcome CompareMemory(const CompareOptions& options) {
  const Stopwatch stopwatch;
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
  Outcome outcome;
  outcome.output = options.json ? report::MeasuredMemoryJson(comparison, stopwatch.Seconds())
                                : report::Wrapped(report::MeasuredMemoryText(comparison));
  outcome.messages = Warnings(*scenario);
  for (const std::string& note : measured->notes) outcome.messages += "note: " + note + "\n";
  return outcome;
}

}  // namespace

Outcome Compare(const CompareOptions& options) {
  if (!options.memory.empty()) return CompareMemory(options);
  const Stopwatch stopwatch;
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
  Outcome outcome;
  outcome.output = options.json ? report::CompareJson(a, b, stopwatch.Seconds(), verdicts)
                                : report::Wrapped(report::CompareText(a, b, verdicts));
  outcome.messages = Warnings(both->a);
  if (std::string more = Warnings(both->b); more != outcome.messages) outcome.messages += more;
  for (const report::GuardVerdict& verdict : verdicts) {
    if (!verdict.failed) continue;
    outcome.status = kAnswerIsNo;
    outcome.messages += fmt::format("stepcast: guard {} {}\n", verdict.guard, verdict.sentence);
  }
  return outcome;
}

Outcome Collective(const CollectiveOptions& options) {
  Diagnostics faults;
  const auto op = ReadCollective("--op", options.op, faults);
  const auto from = ReadSize("--from", options.from, faults);
  const auto to = ReadSize("--to", options.to, faults);
  if (from && to && *from > *to) {
    faults.push_back({"command.wrong-use",
                      {"--to " + options.to, 0, 0},
                      "the last size lies below the first: " + Quoted(options.to),
                      "the first is --from " + FormatBytes(*from)});
  }
  scenario::InputCache cache;
  std::vector<std::string> set = options.set;
  if (!options.network.empty()) set.push_back("cluster.network=" + options.network);
  const auto scenario = scenario::Load(options.scenario, set, cache);
  if (!scenario) faults.insert(faults.end(), scenario.error().begin(), scenario.error().end());
  if (!faults.empty()) return WrongInput(faults);

  const auto forecast = forecast::ForecastCollective(*scenario, *op,
                                                     {.name = options.group,
                                                      .ranks = options.ranks,
                                                      .nodes = options.nodes,
                                                      .siblings = options.siblings},
                                                     *from, *to);
  if (!forecast) return WrongInput(forecast.error());
  Outcome outcome;
  outcome.output = options.json ? report::CollectiveJson(scenario->name, *forecast)
                   : options.csv
                       ? report::CollectiveCsv(*forecast)
                       : report::Wrapped(report::CollectiveText(scenario->name, *forecast));
  outcome.messages = Warnings(*scenario);
  return outcome;
}

namespace {

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
       time ? "a step takes longer than nothing: " + Quoted(text) : time.error().message,
       "write the measured time of a step, for example --measured '5.2 s', or name a trace of it, "
       "or a folder with the traces of several ranks"});
  return std::nullopt;
}

}  // namespace

Outcome Explain(const ExplainOptions& options) {
  const Stopwatch stopwatch;
  scenario::InputCache cache;
  auto scenario = scenario::Load(options.scenario, options.set, cache);
  Diagnostics faults;
  const bool traced = IsTrace(options.measured);
  const std::optional<Time> time =
      traced ? std::nullopt : ReadMeasured(options.measured, faults);
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
  Outcome outcome;
  const report::MeasuredStep* const shown = measured ? &*measured : nullptr;
  outcome.output = options.json
                       ? report::ExplainJson(*scenario, *explanation, stopwatch.Seconds(), shown)
                       : report::Wrapped(report::ExplainText(*scenario, *explanation, shown));
  outcome.messages = Warnings(*scenario);
  const forecast::MemoryForecast& memory = forecast::LeastProbable(explanation->forecast);
  AnswerFit(memory.verdict(), memory.fit_probability, options.fit_probability, outcome);
  return outcome;
}

Outcome Memory(const MemoryOptions& options) {
  const Stopwatch stopwatch;
  auto memory = study::MemoryOfStages(options);
  if (!memory) return WrongInput(memory.error());
  std::optional<report::Fitting>& fitting = memory->fitting;
  if (fitting) fitting->command = options.command;
  Outcome outcome;
  if (options.json) {
    outcome.output = report::MemoryJson(memory->scenario, memory->report, stopwatch.Seconds(),
                                        fitting ? &*fitting : nullptr);
  } else {
    outcome.output = report::Wrapped(report::MemoryText(memory->scenario, memory->report));
    if (fitting) outcome.output += OnItsOwnLines(report::FittingText(*fitting));
  }
  outcome.messages = Warnings(memory->scenario);
  AnswerFit(memory->own.verdict(), memory->own.fit_probability, options.fit_probability, outcome);
  return outcome;
}

namespace {

constexpr const char* kSimulateAbout =
    "Forecasts one training step: its time in the steady state, what computes and what waits in\n"
    "it, every collective, and the memory of the fullest rank.";

constexpr const char* kSimulateFooter =
    "Example:\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml --set training.micro_batch_size=1\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml --trace step.json\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml --report step.html\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml --network flow\n"
    "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml --emit gpt2-plan\n"
    "  stepcast simulate scenarios/llama3-8b-fsdp/scenario.yaml --tokens 15T --price '$2.5' \\\n"
    "      --availability 0.9 --deadline '90 d'\n"
    "\n"
    "With --deadline it exits 3 when the training takes longer.\n"
    "\n"
    "--emit writes what others need to run the plan (docs/plans.md): plan.json, which every\n"
    "command takes in the place of a scenario; DeepSpeed's JSON, a Python module for DDP or FSDP,\n"
    "torchtitan's or Megatron-LM's arguments, whichever the framework is; launch.sh (torchrun) "
    "and\n"
    "job.sbatch (Slurm). All files appear together or none does.\n"
    "\n"
    "--network, or cluster.network in the scenario, says how collectives are followed:\n"
    "  analytic  each by itself, in closed form, on one rank that stands for all\n"
    "  flow      on every rank; collectives that meet on links share them\n"
    "  message   on every rank, every message of every collective\n"
    "All take the same times where nothing contends; the last two see spines that are too narrow\n"
    "and groups that are in each other's way.\n"
    "\n"
    "Open a trace at https://ui.perfetto.dev: one track per stream, arrows where a stream waits\n"
    "for another, counters of memory by category. --trace-dir writes it as rank-N.json of the "
    "rank\n"
    "that the timeline is of, which Holistic Trace Analysis reads.\n"
    "\n"
    "A report is one page for a browser: where the time goes, the timeline with zoom, memory over "
    "the\n"
    "step. On a terminal the step is also drawn below the forecast, without colours where NO_COLOR "
    "is\n"
    "set.\n"
    "\n";

constexpr const char* kMemoryAbout =
    "The memory of one rank at each ZeRO stage, by category: the textbook formula beside the\n"
    "peak of the simulated step. A stage that the framework does not have shows the formula\n"
    "alone and the reason.";

constexpr const char* kMemoryFooter =
    "--max-micro-batch finds the largest micro-batch of each stage, with the scenario's number of\n"
    "micro-batches, what it leaves free, and what one sequence more would lack. It is exact: "
    "larger\n"
    "ones need more than there is.\n"
    "\n"
    "Exits 3 when the scenario does not fit; with --max-micro-batch, when not even one sequence\n"
    "does at the scenario's stage.\n"
    "\n"
    "Example:\n"
    "  stepcast memory scenarios/gpt2-ddp/scenario.yaml --max-micro-batch\n"
    "  stepcast memory scenarios/zero-stages/scenario.yaml\n"
    "\n";

constexpr const char* kCompareAbout =
    "Puts two plans side by side: which settings differ, and where the difference in time and in\n"
    "memory lies, by phase, by collective, by category.";

constexpr const char* kCompareFooter =
    "A and B are scenarios, plan.json files that --emit wrote, models, recipes or configurations\n"
    "of other programs. Options such as --nodes and --gpus describe both. Without B both are A:\n"
    "then --set-a and --set-b make them differ. Differences are B less A, per cent are of A.\n"
    "\n"
    "With --memory it shows the peak that PyTorch measured beside the forecast of A: what\n"
    "torch.cuda.memory._dump_snapshot() wrote (a pickle, of which nothing is executed), the text "
    "of\n"
    "torch.cuda.memory_summary(), or what torch.profiler's export_memory_timeline() wrote, which\n"
    "alone tells categories.\n"
    "\n"
    "--fail-if guards a figure in continuous integration: FIGURE>+CHANGE or FIGURE<-CHANGE, in\n"
    "per cent or in the figure's unit, from A to B. Figures are step_time, tokens_per_second,\n"
    "memory (all that a device needs), peak and exposed_communication. docs/plans.md has a\n"
    "workflow.\n"
    "\n"
    "Exits 3 if a guard fails, else 0, also if one of the two plans does not fit.\n"
    "\n"
    "Example:\n"
    "  stepcast compare scenarios/gpt2-ddp/scenario.yaml --set-b training.micro_batch_size=8\n"
    "  stepcast compare llama3.1-8b qwen3-8b --gpus '8 x h100-sxm'\n"
    "  stepcast compare main.yaml new.yaml --fail-if 'step_time>+2%' --fail-if 'memory>+1GiB'\n"
    "  stepcast compare my.yaml --memory snapshot.pickle\n"
    "\n";

constexpr const char* kExplainAbout =
    "Explains the time of a step: the critical path, exposed communication and the link speed\n"
    "that would hide it, the gain from each faster resource, and the memory at the peak.";

constexpr const char* kExplainFooter =
    "The critical path is a chain of operations that ends with the step. Each of them starts when\n"
    "the one before ends, so the step becomes shorter only if an operation of the chain does. The\n"
    "path stays on the rank that ends last. Time in which this rank waits for another rank, often\n"
    "long in a pipeline, is shown as \"waiting for other ranks\". The part of an operation that\n"
    "passes before it uses any bandwidth is bound by latency. A step at another speed is a new\n"
    "simulation of all ranks.\n"
    "\n"
    "--measured tells whether a measured step is inside the range of the forecast. Then it tries\n"
    "settings in which real runs often differ from a scenario: releases, kernels, recomputation,\n"
    "buckets. Each is a forecast of its own, with the part of the difference that it explains.\n"
    "The next table has resources, and the speed at which each of them explains the difference by\n"
    "itself (docs/slower-than-forecast.md).\n"
    "\n"
    "--measured also takes a trace of PyTorch's profiler (.json, .json.gz), or a folder with one\n"
    "trace for each rank. It then first divides the difference by cause: kernels by kind, exposed\n"
    "communication by axis, launches, data loading, and with several ranks imbalance. The causes\n"
    "and the printed remainder add up to the difference (docs/traces.md).\n"
    "\n"
    "Example:\n"
    "  stepcast explain scenarios/llama3-8b-fsdp/scenario.yaml\n"
    "  stepcast explain scenarios/llama3-8b-fsdp/scenario.yaml --measured '5.2 s'\n"
    "  stepcast explain train.yaml --measured rank0.pt.trace.json.gz\n"
    "  stepcast explain scenarios/gpt2-ddp/scenario.yaml --set cluster.nodes=4 \\\n"
    "      --set parallelism.data=32\n"
    "\n";

constexpr const char* kCollectiveAbout =
    "Forecasts one collective alone on the scenario's cluster over a range of sizes: the table "
    "that\n"
    "nccl-tests would print there, with the algorithm and where the figure comes from.";

constexpr const char* kCollectiveFooter =
    "Sizes double from first to last. Size and bandwidths are those of nccl-tests: size is the\n"
    "buffer of a rank for all_reduce, broadcast, reduce and send_recv, and the parts of all ranks\n"
    "together for the others, which are dealt out in whole units (a size of 0 is too small to "
    "be);\n"
    "algbw is size over time; busbw is algbw times 2 (N - 1) / N for all_reduce, times (N - 1) / "
    "N\n"
    "for those with parts, and algbw itself for the rest. Times are those of the collective "
    "alone,\n"
    "without any framework, or with --siblings beside those of all other groups like it: of the\n"
    "plan's, or of those that the other GPUs form, as many of a node and on as many nodes. A "
    "group\n"
    "that shares a card with others then gets its part of it.\n"
    "\n"
    "Without --group, --ranks and --nodes all ranks of the cluster take part. With --ranks and\n"
    "--nodes the first GPUs of the first nodes do, as many on each.\n"
    "\n"
    "--network flow and message put it on the cluster's links: cluster.slow_links and spines that\n"
    "are too narrow then show.\n"
    "\n"
    "Example:\n"
    "  stepcast collective scenarios/llama3-8b-fsdp/scenario.yaml --op all_gather --to 1GiB\n"
    "  stepcast collective scenarios/llama3-8b-fsdp/scenario.yaml --ranks 8 --nodes 1 --csv\n"
    "  stepcast collective scenarios/hybrid-sharding/scenario.yaml --ranks 16 --nodes 16 "
    "--siblings\n"
    "\n";

}  // namespace

void AddSimulate(Command app, ScenarioFiles& files, SimulateOptions& options, bool& timeline_asked,
                 bool& no_timeline) {
  Command simulate = app.Add("simulate", kSimulateAbout, kSimulateFooter);
  AddScenarioFiles(simulate, files, options.set);
  Option json = simulate.AddFlag("--json", options.json, "Print one JSON document");
  Option trace =
      AddOutput(simulate, "--trace", options.trace,
                "Also write the timeline as Chrome trace JSON; compressed where FILE ends in .gz");
  Option traces = AddTraceFolder(simulate, options.trace_dir);
  AddCount(simulate, "--trace-steps", options.trace_steps, 1, 60,
           "How many steps traces hold, the last of them the one that is forecast (1)");
  Option report = AddReport(simulate, options.report);
  Option timeline = simulate
                        .AddFlag("--timeline", timeline_asked,
                                 "Draw the step's streams below the forecast, as on a terminal")
                        .Excludes(json);
  simulate.AddFlag("--no-timeline", no_timeline, "Do not draw them, on a terminal either")
      .Excludes(timeline);
  AddNetwork(simulate, options.network,
             "How closely collectives are followed: analytic, flow or message");
  simulate
      .AddFlag("--program", options.program,
               "Print the step program that a rank would submit, and whether it is free of races")
      .Excludes(json)
      .Excludes(trace)
      .Excludes(traces)
      .Excludes(report)
      .Excludes(timeline);
  AddTraining(simulate, options.training);
  AddFitProbability(simulate, options.fit_probability);
  AddEmit(simulate, options.emit);
}

void AddMemory(Command app, ScenarioFiles& files, MemoryOptions& options) {
  Command memory = app.Add("memory", kMemoryAbout, kMemoryFooter);
  AddScenarioFiles(memory, files, options.set);
  memory.AddFlag("--json", options.json, "Print one JSON document");
  memory.AddFlag("--max-micro-batch", options.max_micro_batch,
                 "Also find the largest micro-batch that fits, at each stage");
  AddFitProbability(memory, options.fit_probability);
}

void AddCompare(Command app, ScenarioFiles& files, CompareOptions& options) {
  Command command = app.Add("compare", kCompareAbout, kCompareFooter);
  command
      .AddOption("A", options.a,
                 "Scenario, plan.json, a model (its name, here or on the Hub, or its config.json), "
                 "a recipe, or another program's configuration")
      .Required();
  Option other = command.AddOption("B", options.b, "Another (the same)");
  AddRepeated(command, "--set", options.set, "KEY=VALUE",
              "Override a key of both, as often as needed; null: the key's default");
  Option set_a = AddRepeated(command, "--set-a", options.set_a, "KEY=VALUE", "Override a key of A");
  Option set_b = AddRepeated(command, "--set-b", options.set_b, "KEY=VALUE", "Override a key of B");
  command
      .AddOption("--memory", options.memory,
                 "In the place of B: a snapshot, a memory_summary or a memory timeline of PyTorch, "
                 "beside the memory of A")
      .Type("FILE")
      .Excludes(other)
      .Excludes(set_a)
      .Excludes(set_b);
  AddRepeated(command, "--fail-if", options.fail_if, "GUARD",
              "Exit with 3 if a figure changes by more than this from A to B: 'step_time>+2%'")
      .Excludes(command.At("--memory"));
  AddImport(command, files);
  command.AddFlag("--json", options.json, "Print one JSON document");
  AddColumns(command);
}

void AddExplain(Command app, ScenarioFiles& files, ExplainOptions& options) {
  Command explain = app.Add("explain", kExplainAbout, kExplainFooter);
  AddScenarioFiles(explain, files, options.set);
  explain
      .AddOption("--measured", options.measured,
                 "A step's time, its trace, or a folder of traces: also show what explains it")
      .Type("TIME|TRACE");
  explain.AddFlag("--json", options.json, "Print one JSON document");
  AddFitProbability(explain, options.fit_probability);
}

void AddCollective(Command app, CollectiveOptions& options) {
  Command command = app.Add("collective", kCollectiveAbout, kCollectiveFooter);
  AddScenario(command, options.scenario, options.set);
  command
      .AddOption("--op", options.op,
                 fmt::format("Which collective: {} (all_reduce)", CollectiveNames()))
      .Type("NAME");
  command.AddOption("--from", options.from, "The first size (1 KiB)").Type("BYTES");
  command.AddOption("--to", options.to, "The last size (8 GiB)").Type("BYTES");
  constexpr int kMost = 1'000'000;
  Option ranks = AddCount(command, "--ranks", options.ranks, 1, kMost,
                          "How many ranks take part (all of the nodes)");
  Option nodes = AddCount(command, "--nodes", options.nodes, 1, kMost,
                          "On how many nodes (as few as possible)");
  command
      .AddOption("--group", options.group,
                 "A group of the plan instead, that of rank 0: data, shard, replica")
      .Type("NAME")
      .Excludes(ranks)
      .Excludes(nodes);
  command.AddFlag("--siblings", options.siblings,
                  "All groups like it at the same time, which share cards and links");
  AddNetwork(command, options.network,
             "How closely it is followed: analytic, flow or message (as the scenario says)");
  AddJsonAndCsv(command, options.json, options.csv);
  AddColumns(command);
}

}  // namespace stepcast::cli
