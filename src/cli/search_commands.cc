#include <limits.h>

#include <algorithm>
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
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/option_parts.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/cli/process.h"
#include "src/cli/progress.h"
#include "src/forecast/corrections.h"
#include "src/forecast/training_run.h"
#include "src/planner/result_store.h"
#include "src/report/page_figures.h"
#include "src/report/pages.h"
#include "src/report/plan_report.h"
#include "src/report/sweep_report.h"
#include "src/report/table.h"
#include "src/scenario/memory_document.h"
#include "src/study/output_paths.h"
#include "src/study/plan_goal.h"
#include "src/study/plan_port.h"
#include "src/study/plan_search.h"
#include "src/study/run_facts.h"
#include "src/study/sweep_run.h"

namespace stepcast::cli {
namespace {

// The optional store of --store, and messages about it.
class KeptResults {
 public:
  // `facts` returns the inputs of the stored results. It is called only if there is a store. `what`
  // describes the kept results: "of 400 combinations", "bounds and forecasts". Returns an outcome
  // only on failure.
  std::optional<Outcome> Open(const std::string& path,
                              const std::function<std::vector<planner::StoreFact>()>& facts,
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

  planner::ResultStore* store() const { return store_.get(); }  // null if no store was requested

  // The line "120 of 400 combinations are saved in 'F'; run the same command again to continue";
  // nothing without a store, or if it is damaged.
  std::string HowToGoOn() const {
    if (!store_ || store_->damaged()) return "";
    return fmt::format("stepcast: {} {} are saved in {}; to continue, run the same command again\n",
                       store_->kept().load(), what_, Quoted(path_, "'", PATH_MAX));
  }

  // The line "120 of 400 combinations were in 'F'"; nothing if `known` is 0.
  std::string WhatWasKnown(std::int64_t known) const {
    if (known == 0) return "";
    return fmt::format("{} {} were in {}\n", known, what_, Quoted(path_, "'", PATH_MAX));
  }

  // Closes the store. If this run created the file, removes it, since its content is useless.
  void Drop() {
    note_.reset();
    store_.reset();
    std::error_code error;
    if (made_) std::filesystem::remove(path_, error);
  }

 private:
  std::string path_;
  std::string what_;
  bool made_ = false;
  std::unique_ptr<planner::ResultStore> store_;
  std::optional<KeptNote> note_;
};

// The question of a page: the scenario and its overrides.
std::vector<std::pair<std::string, std::string>> AskedOf(const std::string& scenario,
                                                         const std::vector<std::string>& set) {
  std::vector<std::pair<std::string, std::string>> asked{{"scenario", TitleOf(scenario)}};
  for (const std::string& text : set) asked.emplace_back("set", text);
  return asked;
}

struct PlanOptions : study::PlanQuestion {
  ScenarioFiles files;
  report::CommandWords command;  // forecasts the step, for proposals
  bool port = false;             // ports the scenario's plan to the topology `to`
  std::string to;
  std::optional<std::int64_t> to_nodes;  // number of nodes there
  std::string store;                     // a file that keeps bounds and forecasts; empty: none
  AnswerForms forms;                     // the fit probability is of the best plan
};

std::optional<Outcome> EmitBest(const PlanOptions& options, study::PlanSearch& search,
                                const report::PlanReport& report, std::string& messages) {
  if (options.folder.empty()) return std::nullopt;
  if (report.best.empty()) {
    messages += "stepcast: no plan is written, because no plan fits\n";
    return std::nullopt;
  }
  const auto best = search.ScenarioOf(report.best.front().plan);
  if (!best) return WrongInput(best.error());
  return EmitPlan(*best, options.scenario, {options.folder, options.force}, messages);
}

Outcome Report(const PlanOptions& options, study::PlanSearch& search,
               const report::PlanReport& report, AnswerPrinter& printer) {
  // The text output begins with the notes.
  std::string notes;
  if (options.forms.json || options.forms.csv) {
    for (const std::string& note : report.notes) notes += note + "\n";
  }
  Outcome outcome = printer.Print(
      {.text = [&] { return report::PlanText(report); },
       .json = [&] { return report::PlanJson(report); },
       .csv = [&] { return report::PlanCsv(report); },
       .page =
           [&] {
             const auto name = [&](std::int64_t plan) { return search.NameOf(plan); };
             return report::PlanPage(report, AskedOf(options.scenario, options.set), name);
           }},
      notes + Warnings(search.base()));
  if (outcome.status != kDone) return outcome;
  if (report.interrupted) {
    outcome.status = kInterrupted;
  } else if (report.best.empty()) {
    outcome.status = kAnswerIsNo;
  } else {
    const planner::Outcome& best = report.best.front().outcome;
    AnswerFit(best.verdict, best.fit_probability, options.forms.fit_probability, outcome);
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
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
  if (auto fault = CheckEmit(search.base(), options.scenario, {options.folder, options.force})) {
    return *std::move(fault);
  }
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
  Outcome outcome = report ? Report(options, search, *report, printer) : OutcomeOf(report.error());
  outcome.messages += outcome.status == kFailed || outcome.status == kInterrupted
                          ? kept.HowToGoOn()
                          : kept.WhatWasKnown(known);
  return outcome;
}

// Status kAnswerIsNo if no plan fits and meets the deadline. Status kWrongInput only for mistakes
// that every plan in the space would have, as with sweep. Under mpirun all ranks work, and rank 0
// decides, keeps the store and prints (hardware_commands.h).
Outcome Plan(const PlanOptions& options, const RunWork& run_work) {
  const Stopwatch stopwatch;
  study::PlanQuestion question = options;
  const auto port = std::make_shared<std::optional<study::PlanPort>>();
  if (options.port) {
    auto ported = study::PortPlan({options.scenario, options.set, options.to, options.to_nodes});
    if (!ported) return WrongInput(ported.error());
    *port = *std::move(ported);
    question.set = (*port)->set;
  }
  const std::shared_ptr<study::PlanSearch> search = study::PlanSearch::Of(std::move(question));
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

struct SweepOptions : study::SweepQuestion {
  ScenarioFiles files;
  std::string store;  // a file that keeps results; empty: none
  int threads = 0;    // per process; 0: one per usable core
  AnswerForms forms;
};

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
  AnswerPrinter printer;
  if (auto failed = printer.Create(options.forms)) return *failed;
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
  if (!options.forms.report.empty()) {
    auto drawn = RowsToDraw(*result, run);
    if (!drawn) return WrongInput(drawn.error());
    stages = *std::move(drawn);
  }
  std::string messages = first == nullptr ? "" : Warnings(*first);
  const std::vector<planner::SweepRow>& rows = result->rows;
  if (const auto best = report::Fastest(rows)) {
    const planner::SweepRow& row = rows[static_cast<std::size_t>(*best)];
    if (const auto unknown = run.UnknownHostOf(planner::SettingsOf(grid, *best, row))) {
      messages += fmt::format("host times of the combination with the shortest step: {}\n",
                              forecast::Sentence(*unknown));
    }
  }
  const forecast::TrainingTarget& training = run.training();
  Outcome outcome = printer.Print(
      {.text = [&] { return report::SweepText(grid, rows, training); },
       .json =
           [&] {
             return report::SweepJson(grid, rows, stopwatch.Seconds(), result->known, training);
           },
       .csv = [&] { return report::SweepCsv(grid, rows, training); },
       .jsonl = [&] { return report::SweepJsonLines(grid, rows, training); },
       .page =
           [&] {
             // The scenario of the first row, if it is legal, describes what is varied.
             return report::SweepPage(first != nullptr ? first->name : TitleOf(options.scenario),
                                      AskedOf(options.scenario, options.set), grid, rows, stages,
                                      training);
           }},
      std::move(messages));
  outcome.messages += kept.WhatWasKnown(result->known);
  return outcome;
}

// Status kWrongInput only for mistakes that every combination has: an unreadable file, a mistake
// that exists without --vary too, or an unknown key. Other illegal combinations are rows. Under
// mpirun all ranks work, and rank 0 keeps the store and prints (hardware_commands.h).
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

constexpr int kMostThreads = 4096;

void DescribeSweep(Question& question, SweepOptions& options) {
  AddScenarioFiles(question, options.files, options.set);
  question.Option("--vary", &options.vary, "KEY=VALUES");
  question.Option("--store", &options.store, kFile);
  question.Option("--threads", &options.threads, "N").Between(1, kMostThreads);
  AddJsonAndCsv(question, options.forms.json, options.forms.csv);
  question.Flag("--jsonl", &options.forms.jsonl).Excludes({"--json", "--csv"});
  options.training.Describe(question);
  AddReport(question, options.forms.report);
}

void DescribePlan(Question& question, PlanOptions& options) {
  AddScenarioFiles(question, options.files, options.set);
  options.DescribeGoal(question);
  question.Flag("--port", &options.port).Needs({"--to"});
  question.Option("--to", &options.to, "TOPOLOGY").Needs({"--port"});
  question.Option("--to-nodes", &options.to_nodes, "N").Needs({"--port"});
  options.DescribeAnswer(question);
  question.Option("--store", &options.store, kFile);
  question.Option("--threads", &options.threads, "N").Between(1, kMostThreads);
  AddJsonAndCsv(question, options.forms.json, options.forms.csv);
  AddReport(question, options.forms.report);
  AddFitProbability(question, options.forms.fit_probability);
  AddEmit(question, options.folder, options.force);
}

}  // namespace

Command SweepCommand(const RunWork& run_work) {
  return MakeCommand<SweepOptions>("sweep", DescribeSweep, [run_work](SweepOptions& options) {
    ProgressLine line;
    if (line.possible()) {
      options.progress = [&](std::int64_t done, std::int64_t known, std::int64_t rows) {
        line.Show(done, known, rows);
      };
    }
    // The keys of "KEY=VALUES".
    for (const std::string& text : options.vary) {
      options.files.varied.push_back(text.substr(0, text.find('=')));
    }
    options.command = CommandOn("sweep", options.files, options.set);
    return RunOn(options.files, options.scenario, options.set,
                 [&] { return Sweep(options, run_work); });
  });
}

Command PlanCommand(const RunWork& run_work) {
  return MakeCommand<PlanOptions>("plan", DescribePlan, [run_work](PlanOptions& options) {
    options.files.for_search = true;
    options.command = CommandOn("simulate", options.files, options.set);
    return RunOn(options.files, options.scenario, options.set, [&] {
      Diagnostics later;  // the search itself reports mistakes in the time
      SearchProgressLine line(study::ReadWithin(options.within, later));
      options.progress = [&](const planner::SearchProgress& progress) { line.Show(progress); };
      return Plan(options, run_work);
    });
  });
}

}  // namespace stepcast::cli
