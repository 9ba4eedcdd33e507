#include "src/validate/measured_runs.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/printable.h"
#include "src/base/quantity.h"
#include "src/base/thread_team.h"
#include "src/calibration/learned_runs.h"
#include "src/forecast/corrections.h"
#include "src/forecast/forecast.h"
#include "src/forecast/training_run.h"
#include "src/scenario/data_root.h"
#include "src/scenario/load.h"
#include "src/scenario/runs_file.h"
#include "src/validate/published.h"

namespace stepcast::validate {
namespace {

using scenario::PublishedCase;
using scenario::Resolved;

// Whether a rule refuses the plan: the table is wrong, or the run is not modelled.
bool IsRefusal(const Diagnostic& diagnostic) {
  return diagnostic.code.starts_with("plan.") || diagnostic.code.starts_with("cost.");
}

std::string ProfileOf(const scenario::Scenario& scenario, const std::string& file) {
  const auto& keys = std::get<Resolved::Mapping>(scenario.resolved.value);
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [](const auto& entry) { return entry.first == "calibration"; });
  if (found == keys.end()) return "";
  const auto* path = std::get_if<std::string>(&found->second.value);
  if (path == nullptr) return "";
  return scenario::FindInput(*path, scenario::FolderOf(file)).value_or("");
}

// Reports a measurement that is impossible with these settings: a wrong unit, or another run.
void CheckPlausible(const SimulatedRun& run, Time time_at_peak, Diagnostics& mistakes) {
  constexpr double kMostApart = 10;
  const char* const hint = "check the unit and the settings of the run (GPUs, batch, model)";
  if (run.measured < time_at_peak) {
    mistakes.push_back(
        {"runs.impossible", run.location,
         fmt::format("the step time of {} is shorter than the shortest possible time at the peak "
                     "rate of the devices, {}: {}",
                     Quoted(run.name), FormatTime(time_at_peak), FormatTime(run.measured)),
         hint});
    return;
  }
  const double apart = run.measured / run.forecast;
  if (apart <= kMostApart && apart >= 1 / kMostApart) return;
  mistakes.push_back(
      {"runs.implausible", run.location,
       fmt::format(
           "the measured step time of {} is more than {} times {} than the forecast of {}: {}",
           Quoted(run.name), kMostApart, apart > 1 ? "longer" : "shorter", FormatTime(run.forecast),
           FormatTime(run.measured)),
       hint});
}

void Simulate(const PublishedCase& row, const std::string& file, scenario::InputCache& cache,
              SimulatedRun& run, Diagnostics& mistakes) {
  run.name = row.name;
  run.location = row.location;
  run.split = row.split;
  run.reason = row.not_simulated;
  if (run.reason.empty() && !row.step_time && !row.tokens_per_second_per_gpu) {
    run.reason = "the run has no step time";
  }
  if (!run.reason.empty()) return;
  const auto fail = [&](const Diagnostics& diagnostics) {
    if (!std::all_of(diagnostics.begin(), diagnostics.end(), IsRefusal)) {
      mistakes = diagnostics;
      return;
    }
    run.reason = ReasonOf(diagnostics);
  };
  const auto scenario = scenario::LoadTree(row.scenario, file, cache);
  if (!scenario) return fail(scenario.error());
  const auto simulated = forecast::FiguresOf(*scenario);
  if (!simulated) return fail(simulated.error());
  const forecast::Forecast& forecast = *simulated;
  run.settings = forecast::SettingsOf(*scenario);
  run.profile = ProfileOf(*scenario, file);
  run.forecast = forecast.step_time - forecast.time.learned;
  const plan::Training& training = scenario->plan.training;
  const double tokens = static_cast<double>(training.global_batch_size) *
                        static_cast<double>(training.sequence_length);
  if (row.step_time) {
    run.measured = *row.step_time;
  } else {
    constexpr double kPicoseconds = 1e12;
    run.measured = Picoseconds(static_cast<std::int64_t>(
        kPicoseconds * tokens / (*row.tokens_per_second_per_gpu * scenario->cluster->devices())));
  }
  forecast::Forecast second;
  second.step_time = Seconds(1);
  forecast::FillThroughput(*scenario, second);
  if (second.has_flops) run.peak_seconds = second.mfu;
  CheckPlausible(run, forecast.time_at_peak, mistakes);
  const forecast::MemoryForecast& memory = forecast.memory;
  for (const scenario::MeasuredMemory& measured : row.memory) {
    run.memory.push_back({measured.kind, measured.peak, ForecastOf(measured.kind, memory)});
  }
}

Result<scenario::RunsTable> ReadRuns(const std::string& path, const std::string& scenario,
                                     const std::vector<std::string>& set) {
  const bool published = path.ends_with(".yaml") || path.ends_with(".yml");
  if (!published) return scenario::LoadRunsTable(path, scenario, set);
  if (!scenario.empty() || !set.empty()) {
    return tl::make_unexpected(
        Diagnostics{{"runs.published",
                     {path, 0, 0},
                     "--scenario and --set cannot be used with a file of published steps, because "
                     "the file contains the scenarios",
                     "omit --scenario and --set, or edit the file"}});
  }
  auto source = scenario::LoadPublished(scenario::FindInput(path, "").value_or(path));
  if (!source) return tl::make_unexpected(std::move(source.error()));
  scenario::RunsTable table;
  table.runs = std::move(source->cases);
  for (const PublishedCase& row : table.runs) table.files.push_back(row.location.file);
  return table;
}

// Adds mistakes without duplicates, since runs of one scenario share its mistakes.
void AddNew(const Diagnostics& found, Diagnostics& all) {
  for (const Diagnostic& diagnostic : found) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const Diagnostic& other) {
      return other.code == diagnostic.code && other.message == diagnostic.message &&
             other.location.file == diagnostic.location.file &&
             other.location.line == diagnostic.location.line &&
             other.location.column == diagnostic.location.column;
    });
    if (!known) all.push_back(diagnostic);
  }
}

}  // namespace

std::string ReasonOf(const Diagnostics& refusals) {
  std::set<std::string> reasons;
  for (const Diagnostic& diagnostic : refusals) {
    const std::string& message = diagnostic.message;
    const bool value_last = diagnostic.code == "plan.axis-not-of-framework";
    reasons.insert(value_last ? message.substr(0, message.rfind(": ")) : message);
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

Result<std::vector<SimulatedRun>> SimulateRuns(const std::string& path, const std::string& scenario,
                                               const std::vector<std::string>& set) {
  auto table = ReadRuns(path, scenario, set);
  if (!table) return tl::make_unexpected(std::move(table.error()));
  std::vector<SimulatedRun> runs(table->runs.size());
  std::vector<Diagnostics> mistakes(runs.size());
  scenario::InputCache cache;
  ThreadTeam team(UsableCores() - 1);
  ForEachIndex(team, static_cast<std::int64_t>(runs.size()), [&](std::int64_t run, int) {
    const auto i = static_cast<std::size_t>(run);
    // If the table has mistakes, those of its scenarios are added, and nothing runs.
    if (table->mistakes.empty()) {
      Simulate(table->runs[i], table->files[i], cache, runs[i], mistakes[i]);
    } else if (const auto loaded =
                   scenario::LoadTree(table->runs[i].scenario, table->files[i], cache);
               !loaded) {
      mistakes[i] = loaded.error();
    }
  });
  Diagnostics all = std::move(table->mistakes);
  for (const Diagnostics& own : mistakes) {
    if (all.size() >= kMostShownFaults) break;
    AddNew(own, all);
  }
  if (!all.empty()) return tl::make_unexpected(std::move(all));
  return runs;
}

std::optional<double> TimeByNearest(const SimulatedRun& run,
                                    const std::vector<const SimulatedRun*>& known) {
  const SimulatedRun* nearest = nullptr;
  double most = -1;
  for (const SimulatedRun* other : known) {
    const bool same_gpu =
        other->settings[calibration::RunKind::kGpu] == run.settings[calibration::RunKind::kGpu];
    if (!same_gpu || other == &run || other->peak_seconds == 0) continue;
    const double likeness = calibration::LearnedRuns::Likeness(run.settings, other->settings);
    if (likeness <= most) continue;
    most = likeness;
    nearest = other;
  }
  if (nearest == nullptr || run.peak_seconds == 0) return std::nullopt;
  return run.peak_seconds * nearest->measured.seconds() / nearest->peak_seconds;
}

}  // namespace stepcast::validate
