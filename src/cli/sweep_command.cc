#include "src/cli/sweep_command.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "src/cli/page_file.h"
#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/forecast/forecast.h"
#include "src/planner/sweep.h"
#include "src/planner/sweep_grid.h"
#include "src/report/sweep_page.h"
#include "src/report/sweep_report.h"
#include "src/scenario/load.h"

namespace stepcast::cli {
namespace {

std::vector<std::string> Overrides(const SweepOptions& options, const planner::Settings& settings) {
  std::vector<std::string> set = options.set;
  for (const auto& [key, value] : settings) set.push_back(fmt::format("{}={}", key, value));
  return set;
}

Result<planner::SweepGrid> Grid(const SweepOptions& options) {
  std::vector<planner::SweepAxis> axes;
  Diagnostics faults;
  for (const std::string& text : options.vary) {
    auto axis = planner::ParseSweepAxis(text);
    if (axis) {
      axes.push_back(std::move(*axis));
    } else {
      faults.insert(faults.end(), axis.error().begin(), axis.error().end());
    }
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return planner::SweepGrid::Of(std::move(axes));
}

// The scenario and what was set in it.
std::vector<std::pair<std::string, std::string>> About(const SweepOptions& options) {
  std::vector<std::pair<std::string, std::string>> about{{"scenario", options.scenario}};
  for (const std::string& text : options.set) about.emplace_back("set", text);
  return about;
}

std::string Varied(const std::pair<std::string, std::string>& setting) {
  return fmt::format("--vary {}={}", setting.first, setting.second);
}

// What varies is set as --set does it; a mistake in it is one of --vary.
Diagnostics WithVaried(Diagnostics faults, const planner::Settings& settings) {
  for (Diagnostic& fault : faults) {
    for (const auto& setting : settings) {
      if (fault.location.file == fmt::format("--set {}={}", setting.first, setting.second)) {
        fault.location.file = Varied(setting);
      }
    }
  }
  return faults;
}

// Keys that no value makes right: unknown ones, and a path through something that is no mapping.
Diagnostics KeyFaults(const Diagnostics& faults, const planner::Settings& settings) {
  Diagnostics result;
  std::copy_if(
      faults.begin(), faults.end(), std::back_inserter(result), [&](const Diagnostic& fault) {
        return (fault.code == "input.unknown-key" || fault.code.starts_with("override.")) &&
               std::any_of(settings.begin(), settings.end(), [&](const auto& setting) {
                 return fault.location.file == Varied(setting);
               });
      });
  return result;
}

bool SameMessage(const Diagnostic& a, const Diagnostic& b) {
  return a.code == b.code && a.message == b.message;
}

}  // namespace

Outcome Sweep(const SweepOptions& options) {
  const Stopwatch stopwatch;
  const auto grid = Grid(options);
  if (!grid) return WrongInput(grid.error());

  scenario::InputCache cache;
  const auto first = scenario::Load(options.scenario, Overrides(options, grid->Row(0)), cache);
  if (!first) {
    const Diagnostics faults = KeyFaults(WithVaried(first.error(), grid->Row(0)), grid->Row(0));
    if (!faults.empty()) return WrongInput(faults);
  }

  PageFile page;
  if (auto failed = page.Create(options.report)) return *failed;

  const auto evaluate = [&](const planner::Settings& settings) -> Result<forecast::Forecast> {
    const auto scenario = scenario::Load(options.scenario, Overrides(options, settings), cache);
    if (!scenario) return tl::unexpected(WithVaried(scenario.error(), settings));
    thread_local forecast::Forecaster forecaster;
    auto forecast = forecaster.Evaluate(*scenario);
    if (!forecast) return tl::unexpected(WithVaried(std::move(forecast.error()), settings));
    return forecast;
  };
  planner::Progress progress;
  if (options.progress) {
    progress = [&](std::int64_t done) { options.progress(done, grid->rows()); };
  }
  const std::vector<planner::SweepRow> rows = planner::Sweep(*grid, evaluate, progress);

  // A mistake that every row has, and that the scenario has without --vary too, is not about the
  // combinations.
  if (const Diagnostics common = planner::CommonFaults(rows); !common.empty()) {
    const auto base = scenario::Load(options.scenario, options.set, cache);
    if (!base) {
      Diagnostics faults;
      std::copy_if(
          common.begin(), common.end(), std::back_inserter(faults), [&](const Diagnostic& fault) {
            return std::any_of(base.error().begin(), base.error().end(),
                               [&](const Diagnostic& other) { return SameMessage(fault, other); });
          });
      if (!faults.empty()) return WrongInput(faults);
    }
  }

  if (auto failed = page.Write([&] {
        // The scenario of the first row, if there can be one, says what is varied.
        return report::SweepPage(first ? first->name : options.scenario, About(options), *grid,
                                 rows);
      })) {
    return *failed;
  }

  Outcome outcome;
  outcome.output = options.json  ? report::SweepJson(*grid, rows, stopwatch.Seconds())
                   : options.csv ? report::SweepCsv(*grid, rows)
                                 : report::SweepText(*grid, rows);
  if (first) outcome.messages = Warnings(*first);
  return outcome;
}

}  // namespace stepcast::cli
