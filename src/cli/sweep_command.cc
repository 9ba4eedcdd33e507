#include "src/cli/sweep_command.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/cli/code_digest.h"
#include "src/cli/kept_results.h"
#include "src/cli/optional_output.h"
#include "src/cli/page_subject.h"
#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/forecast/host_costs.h"
#include "src/forecast/training_run.h"
#include "src/report/stage_rows.h"
#include "src/report/sweep_page.h"
#include "src/report/sweep_report.h"
#include "src/report/text_wrap.h"
#include "src/study/run_facts.h"

namespace stepcast::cli {
namespace {

std::string Text(const SweepOptions& options, const planner::SweepGrid& grid,
                 const planner::SweepResult& result, const forecast::TrainingTarget& training,
                 double seconds) {
  if (options.json) return report::SweepJson(grid, result.rows, seconds, result.known, training);
  if (options.jsonl) return report::SweepJsonLines(grid, result.rows, training);
  if (options.csv) return report::SweepCsv(grid, result.rows, training);
  return report::Wrapped(report::SweepText(grid, result.rows, training));
}

// The rows that the page draws stage by stage: those that fit, of a pipeline, unless they are too
// many to look at.
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
    // Rows of a scenario that is wrong are of no use to the one that is put right.
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
        // The scenario of the first row, if there can be one, says what is varied.
        return report::SweepPage(first != nullptr ? first->name : options.scenario,
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

}  // namespace stepcast::cli
