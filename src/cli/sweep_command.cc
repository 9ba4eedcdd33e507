#include "src/cli/sweep_command.h"

#include <memory>
#include <optional>

#include "fmt/format.h"
#include "src/cli/asked_file.h"
#include "src/cli/kept_results.h"
#include "src/cli/page_subject.h"
#include "src/cli/spread.h"
#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/report/sweep_page.h"
#include "src/report/sweep_report.h"
#include "src/study/run_facts.h"

namespace stepcast::cli {
namespace {

std::string Text(const SweepOptions& options, const planner::SweepGrid& grid,
                 const planner::SweepResult& result, double seconds) {
  if (options.json) return report::SweepJson(grid, result.rows, seconds, result.known);
  if (options.jsonl) return report::SweepJsonLines(grid, result.rows);
  if (options.csv) return report::SweepCsv(grid, result.rows);
  return report::SweepText(grid, result.rows);
}

Outcome Work(const SweepOptions& options, study::SweepRun& run, const Stopwatch& stopwatch,
             planner::Workforce& workforce) {
  const planner::SweepGrid& grid = run.grid();
  AskedFile page;
  if (auto failed = page.Create(options.report)) return *failed;
  KeptResults kept;
  const std::string combinations =
      fmt::format("of {} combination{}", grid.rows(), grid.rows() == 1 ? "" : "s");
  if (auto failed = kept.Open(
          options.store, [&] { return run.Facts(); }, combinations)) {
    return *failed;
  }
  const auto result = run.Run(workforce, kept.store());
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
  if (auto failed = page.Write([&] {
        // The scenario of the first row, if there can be one, says what is varied.
        return report::SweepPage(first != nullptr ? first->name : options.scenario,
                                 AskedOf(options.scenario, options.set), grid, result->rows);
      })) {
    failed->messages += kept.WhatWasKnown(result->known);
    return *failed;
  }
  Outcome outcome;
  outcome.output = Text(options, grid, *result, stopwatch.Seconds());
  if (first != nullptr) outcome.messages = Warnings(*first);
  outcome.messages += kept.WhatWasKnown(result->known);
  return outcome;
}

}  // namespace

Outcome Sweep(const SweepOptions& options) {
  const Stopwatch stopwatch;
  const auto run = std::make_shared<study::SweepRun>(options);
  return RunSpread({
      .scenario = options.scenario,
      .threads = options.threads,
      .prepare = [run]() -> std::optional<Outcome> {
        const auto ready = run->Prepare();
        return ready ? std::nullopt : std::optional(WrongInput(ready.error()));
      },
      .fingerprint = [run] { return study::ToText(run->Facts()); },
      .work = planner::WorkOf(
          [run](const planner::Settings& settings) { return run->Forecast(settings); }),
      .run =
          [&options, &stopwatch, run](planner::Workforce& workforce) {
            return Work(options, *run, stopwatch, workforce);
          },
  });
}

}  // namespace stepcast::cli
