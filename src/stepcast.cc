#include "src/stepcast.h"

#include <chrono>
#include <functional>

#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/forecast/explanation.h"
#include "src/forecast/forecast.h"
#include "src/forecast/warnings.h"
#include "src/planner/sweep.h"
#include "src/planner/worker_pool.h"
#include "src/report/answer.h"
#include "src/report/answers.h"
#include "src/report/plan_report.h"
#include "src/report/sweep_report.h"
#include "src/scenario/load.h"
#include "src/scenario/memory_document.h"
#include "src/study/comparison.h"
#include "src/study/output_paths.h"
#include "src/study/plan_search.h"
#include "src/study/stage_memory.h"
#include "src/study/sweep_run.h"

namespace stepcast::library {
namespace {

// The scenario as a command takes it: a path, or a name for the text that is valid while this
// object lives.
class Source {
 public:
  explicit Source(const Input& input) : path_(input.path) {
    if (input.path.empty()) document_.emplace(input.title, input.text);
  }
  const std::string& name() const { return document_ ? document_->name() : path_; }

 private:
  std::string path_;
  std::optional<scenario::MemoryDocument> document_;
};

// Wall-clock time of a function call, for the key `run` of its document.
class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

tl::unexpected<Failure> WrongInput(const Diagnostics& diagnostics) {
  Failure failure;
  for (const Diagnostic& diagnostic : diagnostics) {
    failure.mistakes.push_back({diagnostic.code, diagnostic.location.file, diagnostic.location.line,
                                diagnostic.location.column, diagnostic.message, diagnostic.hint});
  }
  return tl::unexpected(std::move(failure));
}

tl::unexpected<Failure> FailureOf(const study::Failure& failure) {
  if (!failure.mistakes.empty()) return WrongInput(failure.mistakes);
  return tl::unexpected(Failure{{}, failure.reason});
}

MemoryFigures Figures(const forecast::MemoryForecast& memory) {
  return {.peak = memory.peak.count(),
          .reserved = memory.reserved.count(),
          .outside = memory.outside.count(),
          .capacity = memory.capacity.count(),
          .fits = memory.fits,
          .verdict = Name(memory.verdict()),
          .fit_probability = memory.fit_probability};
}

SweepRow RowOf(std::vector<std::pair<std::string, std::string>> set, const planner::SweepRow& row) {
  SweepRow made;
  made.set = std::move(set);
  made.status = planner::Name(row.status);
  made.reason = report::Reason(row);
  if (row.status == planner::RowStatus::kIllegal) return made;
  made.step_time = report::JsonSeconds(row.step_time);
  made.tokens_per_second_per_gpu = row.tokens_per_second_per_gpu;
  made.peak = row.peak.count();
  made.reserved = row.reserved.count();
  made.outside = row.outside.count();
  made.capacity = row.capacity.count();
  made.verdict = Name(row.verdict);
  made.fit_probability = row.fit_probability;
  return made;
}

SweepRow RowOf(const planner::Goal& goal, const report::PlanRow& row) {
  const planner::Outcome& outcome = row.outcome;
  return {.set = row.settings,
          .status = outcome.fits ? "ok" : "does_not_fit",
          .reason = report::Reason(goal, row),
          .step_time = report::JsonSeconds(outcome.step_time),
          .tokens_per_second_per_gpu = outcome.tokens_per_second_per_gpu,
          .peak = outcome.memory.count(),
          .reserved = outcome.reserved.count(),
          .outside = outcome.outside.count(),
          .capacity = row.facts.capacity.count(),
          .verdict = Name(outcome.verdict),
          .fit_probability = outcome.fit_probability};
}

struct Simulated {
  scenario::Scenario scenario;
  forecast::Forecast forecast;
  std::string json;
};

Answer<Simulated> SimulateAndShow(const Source& source, const Input& input) {
  const Stopwatch stopwatch;
  scenario::InputCache cache;
  auto scenario = scenario::Load(source.name(), input.set, cache);
  if (!scenario) return WrongInput(scenario.error());
  auto run = forecast::Simulate(*scenario);
  if (!run) return WrongInput(run.error());
  forecast::WarnOfOptimizerStates(run->forecast.memory, *scenario);
  forecast::WarnOfCommunicationSettings(*scenario);
  report::Fitting fitting;
  if (!run->forecast.memory.fits) {
    fitting = study::SettingsThatFit(source.name(), input.set, cache);
  }
  std::string json =
      report::SimulateJson(*scenario, run->forecast, stopwatch.Seconds(), {}, fitting);
  return Simulated{*std::move(scenario), std::move(run->forecast), std::move(json)};
}

}  // namespace

Answer<Simulation> Simulate(const Input& input) {
  const Source source(input);
  auto simulated = SimulateAndShow(source, input);
  if (!simulated) return tl::unexpected(std::move(simulated.error()));
  const forecast::Forecast& forecast = simulated->forecast;
  Simulation simulation;
  simulation.step_time = report::JsonSeconds(forecast.step_time);
  simulation.tokens_per_second = forecast.tokens_per_second;
  simulation.tokens_per_second_per_gpu = forecast.tokens_per_second_per_gpu;
  if (forecast.has_flops) {
    simulation.mfu = forecast.mfu;
    simulation.hfu = forecast.hfu;
  }
  simulation.memory = Figures(forecast.memory);
  simulation.warnings = simulated->scenario.warnings;
  simulation.json = std::move(simulated->json);
  return simulation;
}

Answer<Sweeping> Sweep(const Input& input, const std::vector<std::string>& vary) {
  const Stopwatch stopwatch;
  const Source source(input);
  study::SweepRun run(study::SweepQuestion{source.name(), input.set, vary, {}, {}, {}});
  if (auto ready = run.Prepare(); !ready) return WrongInput(ready.error());
  const auto pool = planner::MakeThreadPool(
      planner::WorkOf([&run](const planner::Settings& settings) { return run.Row(settings); }), 0);
  const auto result = run.Run(*pool, nullptr);
  if (!result) return FailureOf(result.error());
  Sweeping sweeping;
  for (std::int64_t row = 0; row < run.grid().rows(); ++row) {
    const planner::SweepRow& own = result->rows[static_cast<std::size_t>(row)];
    sweeping.rows.push_back(RowOf(planner::SettingsOf(run.grid(), row, own), own));
  }
  sweeping.json = report::SweepJson(run.grid(), result->rows, stopwatch.Seconds());
  return sweeping;
}

Answer<Planning> Plan(const Input& input, const PlanQuestion& question) {
  const Stopwatch stopwatch;
  const Source source(input);
  const FilesRead files;  // the folder may replace none of these
  PlanQuestion asked = question;
  asked.scenario = source.name();
  asked.set = input.set;
  const auto search = study::PlanSearch::Of(asked);
  if (auto ready = search->Prepare(); !ready) return WrongInput(ready.error());
  if (!question.folder.empty()) {
    const auto good =
        study::CheckPlanFolder(search->base(), source.name(), question.folder, question.force);
    if (!good) return FailureOf(good.error());
  }
  const auto pool = planner::MakeThreadPool(
      [&search](const std::string& item) { return search->Work(item); }, question.threads);
  auto report = search->Run(*pool, nullptr);
  if (!report) return FailureOf(report.error());
  report->seconds = stopwatch.Seconds();
  if (!question.folder.empty() && !report->best.empty()) {
    const auto best = search->ScenarioOf(report->best.front().plan);
    if (!best) return WrongInput(best.error());
    const auto written =
        study::WritePlanFolder(*best, source.name(), question.folder, question.force);
    if (!written) return FailureOf(written.error());
  }
  Planning planning;
  for (const report::PlanRow& row : report->best) {
    planning.best.push_back(RowOf(report->goal, row));
  }
  planning.json = report::PlanJson(*report);
  return planning;
}

Answer<StagesMemory> Memory(const Input& input, bool max_micro_batch) {
  const Stopwatch stopwatch;
  const Source source(input);
  const auto known = study::MemoryOfStages({source.name(), input.set, max_micro_batch});
  if (!known) return WrongInput(known.error());
  StagesMemory memory;
  for (const report::StageMemory& stage : known->report.stages) {
    StageMemory made;
    made.stage = stage.stage;
    if (stage.simulated) made.simulated = Figures(*stage.simulated);
    if (stage.limit) made.max_micro_batch = stage.limit->largest;
    memory.stages.push_back(made);
  }
  memory.json = report::MemoryJson(known->scenario, known->report, stopwatch.Seconds(),
                                   known->fitting ? &*known->fitting : nullptr);
  return memory;
}

Answer<Document> Compare(const Input& a, const Input& b) {
  const Stopwatch stopwatch;
  const Source of_a(a);
  const Source of_b(b);
  const auto both = study::Compare({of_a.name(), of_b.name(), {}, a.set, b.set});
  if (!both) return WrongInput(both.error());
  return Document{report::CompareJson({of_a.name(), &both->a, &both->of_a},
                                      {of_b.name(), &both->b, &both->of_b}, stopwatch.Seconds())};
}

Answer<Document> Explain(const Input& input) {
  const Stopwatch stopwatch;
  const Source source(input);
  scenario::InputCache cache;
  auto scenario = scenario::Load(source.name(), input.set, cache);
  if (!scenario) return WrongInput(scenario.error());
  const auto explanation = forecast::Explain(*scenario);
  if (!explanation) return WrongInput(explanation.error());
  forecast::WarnOfOptimizerStates(explanation->forecast.memory, *scenario);
  forecast::WarnOfCommunicationSettings(*scenario);
  return Document{report::ExplainJson(*scenario, *explanation, stopwatch.Seconds())};
}

Answer<Document> Emit(const Input& input, const std::string& folder, bool force) {
  const Source source(input);
  const FilesRead files;  // the folder may replace none of these
  scenario::InputCache cache;
  const auto scenario = scenario::Load(source.name(), input.set, cache);
  if (!scenario) return WrongInput(scenario.error());
  const auto good = study::CheckPlanFolder(*scenario, source.name(), folder, force);
  if (!good) return FailureOf(good.error());
  auto simulated = SimulateAndShow(source, input);
  if (!simulated) return tl::unexpected(std::move(simulated.error()));
  const auto written = study::WritePlanFolder(simulated->scenario, source.name(), folder, force);
  if (!written) return FailureOf(written.error());
  return Document{std::move(simulated->json)};
}

}  // namespace stepcast::library
