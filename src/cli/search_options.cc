#include <limits.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/cli/code_digest.h"
#include "src/cli/command_options.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/option_parts.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/cli/process.h"
#include "src/cli/progress.h"
#include "src/forecast/corrections.h"
#include "src/forecast/training_run.h"
#include "src/planner/result_store.h"
#include "src/report/pages.h"
#include "src/report/plan_report.h"
#include "src/report/plan_rows.h"
#include "src/report/stage_rows.h"
#include "src/report/sweep_report.h"
#include "src/report/table.h"
#include "src/scenario/memory_document.h"
#include "src/study/output_paths.h"
#include "src/study/plan_port.h"
#include "src/study/plan_search.h"
#include "src/study/run_facts.h"

namespace stepcast::cli {
// The optional store of --store, and messages about it.
class KeptResults {
 public:
  // `facts`: the inputs of the stored results, requested only if there is a store. `what` it keeps:
  // "of 400 combinations", "bounds and forecasts". An outcome is a failure.
  std::optional<Outcome> Open(const std::string& path,
                              const std::function<std::vector<planner::StoreFact>()>& facts,
                              const std::string& what);

  planner::ResultStore* store() const { return store_.get(); }  // null if no store was requested

  // The line "120 of 400 combinations are kept in 'F': the same command goes on from there";
  // nothing without a store, or if it is damaged.
  std::string HowToGoOn() const;
  // The line "120 of 400 combinations were in 'F'"; nothing if `known` is 0.
  std::string WhatWasKnown(std::int64_t known) const;
  // Closes the store. If this run created the file, removes it, since its content is useless.
  void Drop();

 private:
  std::string path_;
  std::string what_;
  bool made_ = false;
  std::unique_ptr<planner::ResultStore> store_;
  std::optional<KeptNote> note_;
};

std::optional<Outcome> KeptResults::Open(
    const std::string& path, const std::function<std::vector<planner::StoreFact>()>& facts,
    const std::string& what) {
  if (path.empty()) return std::nullopt;
  if (auto wrong = study::ReplacesInput(path)) return WrongInput({*std::move(wrong)});
  path_ = path;
  what_ = what;
  std::error_code error;
  made_ = !std::filesystem::exists(path, error);
  auto opened = planner::ResultStore::Open(path, facts());
  if (!opened) {
    const planner::StoreFault& fault = opened.error();
    return fault.wrong_input.empty() ? Failed(fault.failure) : WrongInput(fault.wrong_input);
  }
  store_ = *std::move(opened);
  note_.emplace(store_->kept(), what_, store_->path());
  return std::nullopt;
}

std::string KeptResults::HowToGoOn() const {
  if (!store_ || store_->damaged()) return "";
  return fmt::format("stepcast: {} {} are kept in {}: the same command goes on from there\n",
                     store_->kept().load(), what_, Quoted(path_, "'", PATH_MAX));
}

std::string KeptResults::WhatWasKnown(std::int64_t known) const {
  if (known == 0) return "";
  return fmt::format("{} {} were in {}\n", known, what_, Quoted(path_, "'", PATH_MAX));
}

void KeptResults::Drop() {
  note_.reset();
  store_.reset();
  std::error_code error;
  if (made_) std::filesystem::remove(path_, error);
}

// The question of a page: the scenario and its overrides.
std::vector<std::pair<std::string, std::string>> AskedOf(const std::string& scenario,
                                                         const std::vector<std::string>& set);

std::vector<std::pair<std::string, std::string>> AskedOf(const std::string& scenario,
                                                         const std::vector<std::string>& set) {
  std::vector<std::pair<std::string, std::string>> asked{{"scenario", TitleOf(scenario)}};
  for (const std::string& text : set) asked.emplace_back("set", text);
  return asked;
}

namespace {

std::optional<Outcome> EmitBest(const PlanOptions& options, study::PlanSearch& search,
                                const report::PlanReport& report, std::string& messages) {
  if (options.emit.folder.empty()) return std::nullopt;
  if (report.best.empty()) {
    messages += "stepcast: no plan fits, so none is written\n";
    return std::nullopt;
  }
  const auto best = search.ScenarioOf(report.best.front().plan);
  if (!best) return WrongInput(best.error());
  return EmitPlan(*best, options.scenario, options.emit, messages);
}

Outcome Report(const PlanOptions& options, study::PlanSearch& search,
               const report::PlanReport& report, OptionalOutput& page) {
  if (auto failed = page.Write([&] {
        const auto name = [&](std::int64_t plan) { return search.NameOf(plan); };
        return report::PlanPage(
            report::ViewOf(report, AskedOf(options.scenario, options.set), name));
      })) {
    return *failed;
  }
  Outcome outcome;
  outcome.output = options.json  ? report::PlanJson(report)
                   : options.csv ? report::PlanCsv(report)
                                 : report::Wrapped(report::PlanText(report));
  // The text output begins with them.
  if (options.json || options.csv) {
    for (const std::string& note : report.notes) outcome.messages += note + "\n";
  }
  outcome.messages += Warnings(search.base());
  if (report.interrupted) {
    outcome.status = kInterrupted;
  } else if (report.best.empty()) {
    outcome.status = kAnswerIsNo;
  } else {
    const planner::Outcome& best = report.best.front().outcome;
    AnswerFit(best.verdict, best.fit_probability, options.fit_probability, outcome);
  }
  if (auto failed = EmitBest(options, search, report, outcome.messages)) return *std::move(failed);
  return outcome;
}

// The command that forecasts the nearest plan.
report::CommandWords NearestCommand(const PlanOptions& options, const report::PlanReport& report) {
  // A scenario's own settings are among those of all plans.
  const bool made = scenario::MemoryDocument::Find(options.scenario) != nullptr;
  report::CommandWords command =
      made ? options.command : report::CommandWords{{"stepcast", "simulate", options.scenario}, {}};
  command.set.insert(command.set.end(), report.set.begin(), report.set.end());
  return command.With(report.nearest.front().settings);
}

// Runs at rank 0.
Outcome Work(const PlanOptions& options, study::PlanSearch& search,
             const std::optional<study::PlanPort>& port, const Stopwatch& stopwatch,
             planner::WorkerPool& pool) {
  OptionalOutput page;
  if (auto failed = page.Create(options.report)) return *failed;
  if (auto fault = CheckEmit(options.emit)) return *std::move(fault);
  KeptResults kept;
  if (auto failed = kept.Open(
          options.store, [&] { return search.Facts(CodeDigest()); }, "bounds and forecasts")) {
    return *failed;
  }
  const StopAtInterrupt stop_at_interrupt(search.stop());
  const std::int64_t known = kept.store() == nullptr ? 0 : kept.store()->kept().load();
  auto report = search.Run(pool, kept.store());
  if (report && port) {
    auto forecasts = study::ForecastPort(*port);
    if (!forecasts) return WrongInput(forecasts.error());
    report->port = *std::move(forecasts);
  }
  if (report) {
    if (report->would_fit) report->would_fit->command = NearestCommand(options, *report);
    report->seconds = stopwatch.Seconds();
  }
  Outcome outcome = report ? Report(options, search, *report, page) : OutcomeOf(report.error());
  outcome.messages += outcome.status == kFailed || outcome.status == kInterrupted
                          ? kept.HowToGoOn()
                          : kept.WhatWasKnown(known);
  return outcome;
}

}  // namespace

Outcome Plan(const PlanOptions& options, const RunWork& run_work) {
  const Stopwatch stopwatch;
  study::PlanQuestion question = options;
  constexpr int kMostNamed = 1000;
  const std::string& why = options.why_not;
  int named = 0;
  const auto [end, error] = std::from_chars(why.data(), why.data() + why.size(), named);
  if (error == std::errc() && end == why.data() + why.size() && named >= 1 && named <= kMostNamed) {
    question.why = named;
  } else {
    question.why_layout = why;
  }
  const auto port = std::make_shared<std::optional<study::PlanPort>>();
  if (options.port) {
    auto ported = study::PortPlan({options.scenario, options.set, options.to, options.to_nodes});
    if (!ported) return WrongInput(ported.error());
    *port = *std::move(ported);
    question.set = (*port)->set;
  }
  const auto search = std::make_shared<study::PlanSearch>(std::move(question));
  return run_work({
      .scenario = options.scenario,
      .threads = options.threads,
      .prepare = [search]() -> std::optional<Outcome> {
        const auto ready = search->Prepare();
        return ready ? std::nullopt : std::optional(WrongInput(ready.error()));
      },
      .fingerprint = [search] { return search->Fingerprint(CodeDigest()); },
      .work = [search](const std::string& item) { return search->Work(item); },
      .run =
          [&options, &stopwatch, search, port](planner::WorkerPool& pool) {
            return Work(options, *search, *port, stopwatch, pool);
          },
  });
}

namespace {

std::string Text(const SweepOptions& options, const planner::SweepGrid& grid,
                 const planner::SweepResult& result, const forecast::TrainingTarget& training,
                 double seconds) {
  if (options.json) return report::SweepJson(grid, result.rows, seconds, result.known, training);
  if (options.jsonl) return report::SweepJsonLines(grid, result.rows, training);
  if (options.csv) return report::SweepCsv(grid, result.rows, training);
  return report::Wrapped(report::SweepText(grid, result.rows, training));
}

// The rows that the page draws by stage: those with a pipeline that fit, unless there are too many.
Result<std::vector<report::StageRows>> RowsToDraw(const planner::SweepResult& result,
                                                  study::SweepRun& run) {
  constexpr std::ptrdiff_t kMostPlans = 8;
  std::vector<report::StageRows> drawn;
  const auto fits = [](const planner::SweepRow& row) {
    return row.status == planner::RowStatus::kOk;
  };
  const scenario::Scenario* first = run.first();
  if (first == nullptr || first->plan.parallelism.pipeline == 1 ||
      std::count_if(result.rows.begin(), result.rows.end(), fits) > kMostPlans) {
    return drawn;
  }
  for (std::size_t row = 0; row < result.rows.size(); ++row) {
    if (!fits(result.rows[row])) continue;
    const planner::Settings settings =
        planner::SettingsOf(run.grid(), static_cast<std::int64_t>(row), result.rows[row]);
    const auto simulated = run.Simulate(settings);
    if (!simulated) return tl::unexpected(simulated.error());
    std::string name;
    for (const auto& [key, value] : settings) name += (name.empty() ? "" : ", ") + value;
    drawn.push_back(report::StageRowsOf(std::move(name), *simulated));
  }
  return drawn;
}

Outcome Work(const SweepOptions& options, study::SweepRun& run, const Stopwatch& stopwatch,
             planner::WorkerPool& pool) {
  const planner::SweepGrid& grid = run.grid();
  OptionalOutput page;
  if (auto failed = page.Create(options.report)) return *failed;
  KeptResults kept;
  const std::string combinations =
      fmt::format("of {} combination{}", grid.rows(), grid.rows() == 1 ? "" : "s");
  if (auto failed = kept.Open(
          options.store, [&] { return run.Facts(CodeDigest()); }, combinations)) {
    return *failed;
  }
  const auto result = run.Run(pool, kept.store());
  if (!result) {
    Outcome failed = OutcomeOf(result.error());
    // Rows of a wrong scenario are useless after it is corrected.
    if (failed.status == kWrongInput) {
      kept.Drop();
    } else {
      failed.messages += kept.HowToGoOn();
    }
    return failed;
  }
  const scenario::Scenario* first = run.first();
  std::vector<report::StageRows> stages;
  if (!options.report.empty()) {
    auto drawn = RowsToDraw(*result, run);
    if (!drawn) return WrongInput(drawn.error());
    stages = *std::move(drawn);
  }
  if (auto failed = page.Write([&] {
        // The scenario of the first row, if it is legal, describes what is varied.
        return report::SweepPage(first != nullptr ? first->name : TitleOf(options.scenario),
                                 AskedOf(options.scenario, options.set), grid, result->rows, stages,
                                 run.training());
      })) {
    failed->messages += kept.WhatWasKnown(result->known);
    return *failed;
  }
  Outcome outcome;
  outcome.output = Text(options, grid, *result, run.training(), stopwatch.Seconds());
  if (first != nullptr) outcome.messages = Warnings(*first);
  if (const auto best = report::Fastest(result->rows)) {
    const planner::SweepRow& row = result->rows[static_cast<std::size_t>(*best)];
    if (const auto unknown = run.UnknownHostOf(planner::SettingsOf(grid, *best, row))) {
      outcome.messages +=
          fmt::format("host of the shortest step: {}\n", forecast::Sentence(*unknown));
    }
  }
  outcome.messages += kept.WhatWasKnown(result->known);
  return outcome;
}

}  // namespace

Outcome Sweep(const SweepOptions& options, const RunWork& run_work) {
  const Stopwatch stopwatch;
  const auto run = std::make_shared<study::SweepRun>(options);
  return run_work({
      .scenario = options.scenario,
      .threads = options.threads,
      .prepare = [run]() -> std::optional<Outcome> {
        const auto ready = run->Prepare();
        return ready ? std::nullopt : std::optional(WrongInput(ready.error()));
      },
      .fingerprint = [run] { return study::ToText(run->Facts(CodeDigest())); },
      .work =
          planner::WorkOf([run](const planner::Settings& settings) { return run->Row(settings); }),
      .run = [&options, &stopwatch,
              run](planner::WorkerPool& pool) { return Work(options, *run, stopwatch, pool); },
  });
}

namespace {

constexpr int kMostThreads = 4096;

constexpr const char* kSweepAbout =
    "Forecasts every combination of the values given with --vary, on all cores. The first key\n"
    "varies slowest. A combination that cannot exist is a row with the reason, one that does\n"
    "not fit is a row with its figures.";

constexpr const char* kSweepFooter =
    "VALUES are a list, and each of its members a value or a range:\n"
    "  1 MiB,25 MiB         two values\n"
    "  1..64 x2             1, 2, 4, ... 64: each the one before times 2\n"
    "  5 MiB..100 MiB x2    5, 10, 20, 40 and 80 MiB\n"
    "  1..9 +2              1, 3, 5, 7, 9: each the one before plus 2\n"
    "  all                  every value of a key that has few: words, true and false\n"
    "  null                 the key's default, as if the scenario did not have it\n"
    "\n"
    "A value that no combination could have, such as a misspelled word, ends the command before\n"
    "it begins (exit status 2). Combinations that rules refuse are rows.\n"
    "\n"
    "With --store the results go into FILE as they come. After an interruption of any kind the\n"
    "same command goes on from there, and prints what it would have printed without one. A store\n"
    "that another program, other files or other options have made is refused; two processes "
    "cannot\n"
    "use one at the same time.\n"
    "\n"
    "Under mpirun, or srun with PMI, all ranks work; rank 0 hands out the combinations, keeps the\n"
    "store and prints. A rank that dies ends all of them.\n"
    "\n"
    "Example:\n"
    "  stepcast sweep scenarios/bucket-sweep/scenario.yaml \\\n"
    "      --vary 'data_parallel.bucket_size=1 MiB..512 MiB x2'\n"
    "  stepcast sweep scenarios/four-million-tokens/scenario.yaml \\\n"
    "      --vary 'cluster.nodes=8..64 x2' --vary training.activation_checkpointing=all \\\n"
    "      --report sweep.html\n"
    "  stepcast sweep scenarios/four-million-tokens/scenario.yaml \\\n"
    "      --vary 'cluster.nodes=8..64 x2' --tokens 15T --price '$2.5' --availability 0.9\n"
    "  stepcast sweep llama3.1-8b --cluster dgx-h100 --nodes 2 --global-batch 64 \\\n"
    "      --vary parallelism.data=4,8,16 --vary data_parallel.unit_blocks=1,2,4\n"
    "  mpirun -n 16 stepcast sweep scenario.yaml --vary ... --store sweep.sqlite --jsonl\n"
    "\n"
    "Where combinations use several numbers of GPUs, the best of each stands in a table of its\n"
    "own. --tokens, --deadline and --price say of each row how long the training takes and what\n"
    "it costs.\n"
    "\n"
    "Exits 0 whenever it printed its table, whatever the rows say.\n"
    "\n";

constexpr const char* kPlanAbout =
    "Searches the plans for a scenario's model, cluster and global batch: tensor, pipeline,\n"
    "context, expert and data parallelism, schedules, virtual stages, micro-batches,\n"
    "recomputation, ZeRO stages, and every setting of the frameworks that does something. What\n"
    "cannot be best is left out by bounds that are proved; what is left is simulated. The answer\n"
    "is the one that simulating all of them would give.";

constexpr const char* kPlanFooter =
    "Targets:\n"
    "  step_time   the shortest step; where --vary gives steps unequal numbers of tokens, the\n"
    "              least time for a token\n"
    "  throughput  the most tokens per second and GPU\n"
    "  gpus        the fewest GPUs that meet --deadline with --tokens\n"
    "  cost        the least money for a token, at --price for a GPU hour\n"
    "  memory      the lowest peak\n"
    "  days        the shortest training of --tokens, with its failures as run-time counts them\n"
    "\n"
    "Prints the best plan of each framework and of what it divides, the best plans of all, the\n"
    "Pareto front of step time, memory and GPUs, what 10 % more of each resource or the\n"
    "neighbouring values of each setting would change, and the verdicts on the other plans.\n"
    "docs/planning.md lists the values that are tried and proves the bounds.\n"
    "\n"
    "With --port the scenario's plan keeps every setting that the rules allow on the cluster of\n"
    "--to. The answer says which settings had to change and why, forecasts the plan there and\n"
    "here, and says what it loses against the best plan of the search.\n"
    "\n"
    "--only names what is divided beside the batch. --vary replaces the values of a setting, or "
    "adds one (VALUES as for sweep); --fix keeps it "
    "as\n"
    "the scenario has it, or at its default. What a framework does not have is searched without,\n"
    "and said on stderr. Without --framework all are tried but reference, whose "
    "kernels\n"
    "cost nothing to start, and nanotron.\n"
    "\n"
    "Of plans that tie only the first is ranked, with the settings that make no difference:\n"
    "their steps take as long to within 0.05 %, and the others need no less memory "
    "to\n"
    "within 1 %.\n"
    "\n"
    "With --store bounds and forecasts go into FILE as they come. After an interruption of any "
    "kind\n"
    "the same command goes on from there; other goals, values and spaces use what is in it, too. "
    "A\n"
    "store that another program, other files or other --set options have made is refused. Under\n"
    "mpirun, or srun with PMI, all ranks work; rank 0 decides, keeps the store and prints.\n"
    "\n"
    "The scenario's own plan is simulated first, and is the row 'yours' of every table. A "
    "scenario\n"
    "needs a model, a cluster, a sequence length and a global batch; the rest is assumed and "
    "listed.\n"
    "\n"
    "Exits 3 when no plan fits and meets the deadline; those that come nearest are printed. "
    "Ctrl-C\n"
    "prints the best plan so far and exits 130.\n"
    "\n"
    "Example:\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml --only data,tensor --target memory\n"
    "  stepcast plan --port scenarios/llama3-8b-fsdp/scenario.yaml --to dgx-a100 --only data\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml --within 10s --why tensor=8\n"
    "  stepcast plan scenarios/llama3-8b-fsdp/scenario.yaml --target gpus --deadline '40 d' \\\n"
    "      --tokens 1T --fix training.activation_checkpointing --why 10\n"
    "\n";

}  // namespace

void AddSweep(Command app, ScenarioFiles& files, SweepOptions& options) {
  Command sweep = app.Add("sweep", kSweepAbout, kSweepFooter);
  AddScenarioFiles(sweep, files, options.set);
  AddRepeated(sweep, "--vary", options.vary, "KEY=VALUES",
              "A key and its values, as often as needed; at most 10^6 combinations");
  AddOutput(sweep, "--store", options.store,
            "Keep results in FILE as they come; the same command goes on from there");
  AddCount(sweep, "--threads", options.threads, 1, kMostThreads,
           "How many threads forecast (one for each core)");
  Option json = AddJsonAndCsv(sweep, options.json, options.csv);
  sweep.AddFlag("--jsonl", options.jsonl, "Print a JSON document for each row, a line each")
      .Excludes(json)
      .Excludes(sweep.At("--csv"));
  AddTraining(sweep, options.training);
  AddReport(sweep, options.report);
}

void AddPlan(Command app, ScenarioFiles& files, PlanOptions& plan) {
  Command command = app.Add("plan", kPlanAbout, kPlanFooter);
  AddScenarioFiles(command, files, plan.set);
  command.AddOption("--target", plan.target, "What the best plan has (step_time)").Type("NAME");
  command
      .AddOption("--framework", plan.framework,
                 "Frameworks to choose from (all, but reference and nanotron)")
      .Type("NAME,...");
  command
      .AddOption("--only", plan.only,
                 "What is divided, of data, tensor, pipeline, context, expert (all)")
      .Type("KIND,...");
  AddRepeated(command, "--vary", plan.vary, "KEY=VALUES",
              "The values of a setting to choose from, as often as needed");
  AddRepeated(command, "--fix", plan.fix, "KEY", "A setting that stays as the scenario has it");
  command.AddFlag("--fewer-nodes", plan.fewer_nodes,
                  "Try parts of a node, and powers of two of nodes (target gpus always does)");
  AddTraining(command, plan.training);
  command
      .AddOption(
          "--headroom", plan.headroom,
          "Memory that must stay free on each device, beside what the plan needs (the error of "
          "the forecast's memory, see docs/uncertainty.md): '4 GiB', '5%', 0")
      .Type("SIZE|PERCENT");
  Option port = command.AddFlag("--port", plan.port,
                                "Carry SCENARIO's own plan over to the cluster of --to, too");
  Option to = command
                  .AddOption("--to", plan.to,
                             "With --port: the topology, a file or a name (stepcast list "
                             "topologies)")
                  .Type("TOPOLOGY")
                  .Needs(port);
  port.Needs(to);
  command
      .AddOption("--to-nodes", plan.to_nodes,
                 "How many nodes it has there (as many as have no more GPUs than the plan)")
      .Type("N")
      .Needs(port);
  constexpr int kMostRows = 1000;
  AddCount(command, "--best", plan.best, 1, kMostRows,
           "How many plans to rank and prove (5; of more than 20,000 only the first is proved)");
  command.AddFlag("--front", plan.front,
                  "Find the Pareto front among more than 20,000 plans, too: most of the time");
  command.AddFlag("--no-front", plan.no_front, "Leave out the Pareto front");
  command
      .AddOption("--why", plan.why_not,
                 "Name so many runners-up, or say where a layout stands (tensor=8,pipeline=16), "
                 "with the reason of each")
      .Type("N|LAYOUT");
  command
      .AddOption("--within", plan.within,
                 "End with what was found after TIME (10s), and say what is not proved")
      .Type("TIME");
  command.AddFlag("--sensitivity", plan.sensitivity,
                  "Find what would change the best of more than 20,000 plans, too");
  command.AddFlag("--no-sensitivity", plan.no_sensitivity,
                  "Leave out what more of each resource or another setting would change");
  AddOutput(command, "--store", plan.store,
            "Keep bounds and forecasts in FILE, and go on from those that are there");
  AddCount(command, "--threads", plan.threads, 1, kMostThreads,
           "How many threads each process uses (one for each core)");
  AddJsonAndCsv(command, plan.json, plan.csv);
  AddReport(command, plan.report);
  AddFitProbability(command, plan.fit_probability);
  AddEmit(command, plan.emit);
}

}  // namespace stepcast::cli
