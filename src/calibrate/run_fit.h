#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/calibration/learned_runs.h"
#include "src/calibration/run_settings.h"

// Computes statistics of measured runs: how well other runs predict each run, and which settings
// cause forecast errors.
namespace stepcast::calibrate {

struct MeasuredRun {
  calibration::RunSettings settings;
  double measured = 0, forecast = 0;  // step times, positive, in the same unit
};

// The measured runs that have the same settings.
struct Configuration {
  calibration::LearnedRun run;
  std::vector<std::size_t> members;  // indices of the measured runs
  // The prediction from the other configurations. None if no other configuration is similar.
  std::optional<calibration::LearnedRuns::Estimate> left_out{};
};

// A setting whose runs have larger forecast errors than other runs.
struct SettingResidual {
  std::string setting;  // "precision: fp8", "gpus: 64 or more"
  std::size_t runs = 0;
  double with = 0, without = 0;  // mean of log(measured / forecast) with and without the setting
};

struct RunFit {
  std::vector<Configuration> configurations;
  // The corrections learned from all configurations that are similar to another configuration. With
  // only one configuration, the corrections are learned from it. None if there are several
  // configurations and no two of them are similar.
  std::optional<calibration::LearnedRuns> learned{};
  // Whether to use the corrections. If there are several configurations, the corrections from the
  // others must reduce the mean absolute error of a configuration by more than one standard error
  // of this reduction. (L. Breiman et al. 1984, Classification and Regression Trees, section 3.4,
  // prefers the simpler of two models by this rule.)
  bool useful = false;
  std::vector<SettingResidual> settings;  // sorted by significance, highest first
};

// Fits corrections to measured runs. A single configuration determines one factor, which cannot be
// checked against other configurations. Uses at most LearnedRuns::kMostRuns configurations.
RunFit FitRuns(const std::vector<MeasuredRun>& runs);

}  // namespace stepcast::calibrate
