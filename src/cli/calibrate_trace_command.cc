#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/cli/command_options.h"
#include "src/cli/outputs.h"
#include "src/forecast/forecast.h"
#include "src/report/answers.h"
#include "src/report/learned_rates.h"
#include "src/report/table.h"
#include "src/scenario/load.h"
#include "src/study/traced_rates.h"
#include "src/study/traced_steps.h"

namespace stepcast::cli {
namespace {

// The text of the scenario's profile.
tl::expected<std::string, Outcome> ProfileText(const CalibrateTraceOptions& options,
                                               const scenario::Scenario& scenario) {
  const std::string& file = scenario.calibration->location.file;
  if (file == options.scenario) {
    return tl::make_unexpected(
        WrongInput({{"calibrate.inline-profile",
                     scenario.calibration->location,
                     "the profile is written inside the scenario, and a file is needed",
                     "put it into a file, and name this: calibration: my-profile.yaml"}}));
  }
  Diagnostics faults;
  auto text = ReadTextFile(file, faults);
  if (!text) return tl::make_unexpected(WrongInput(faults));
  return *std::move(text);
}

}  // namespace

Outcome CalibrateTrace(const CalibrateTraceOptions& options) {
  OptionalOutput output;
  if (auto failed = output.Create(options.output)) return *std::move(failed);
  scenario::InputCache cache;
  const auto scenario = scenario::Load(options.scenario, options.set, cache);
  if (!scenario) return WrongInput(scenario.error());
  if (scenario->calibration == nullptr) {
    return WrongInput({{"calibrate.no-profile",
                        {options.scenario, 0, 0},
                        "the scenario has no calibration profile whose rates could be learned",
                        "name the GPU in its topology, for example gpu: h100-sxm"}});
  }
  const auto run = forecast::Simulate(*scenario);
  if (!run) return WrongInput(run.error());
  auto traced = study::ReadTracedSteps(options.traces, *run, scenario->cluster->devices());
  if (!traced) return WrongInput(traced.error());
  study::TracedRates rates =
      study::LearnRates(*scenario, *run, options.traces, *std::move(traced));

  Outcome outcome;
  if (!options.output.empty()) {
    const auto profile = ProfileText(options, *scenario);
    if (!profile) return profile.error();
    if (auto failed = output.Write([&] {
          return report::WithSections(*profile, report::CalibrationYaml(rates.sections));
        })) {
      return *std::move(failed);
    }
    rates.report.written = options.output;
    std::vector<std::string> set = options.set;
    set.push_back("calibration=" + options.output);
    if (scenario->cluster->flat() && !rates.report.tables.empty()) {
      constexpr const char* kNoLink = "cluster.topology.link=null";
      set.emplace_back(kNoLink);
      rates.report.notes.push_back(fmt::format(
          "the learned collectives take the place of the flat cluster's link: add --set {}",
          kNoLink));
    }
    scenario::InputCache other;
    const auto learned = scenario::Load(options.scenario, set, other);
    if (!learned) return WrongInput(learned.error());
    const auto figures = forecast::FiguresOf(*learned);
    if (!figures) return WrongInput(figures.error());
    rates.report.learned = figures->step_time;
  }
  outcome.output = options.json ? report::LearnedRatesJson(rates.report)
                                : report::Wrapped(report::LearnedRatesText(rates.report));
  outcome.messages = Warnings(*scenario);
  return outcome;
}

}  // namespace stepcast::cli
