#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/calibration/learned_runs.h"
#include "src/calibration/run_settings.h"

// Statistics of measured runs: how well other runs predict each run, and which settings are
// associated with forecast errors.
namespace stepcast::calibrate {

struct MeasuredRun {
  calibration::RunSettings settings;
  double measured = 0, forecast = 0;  // step times, positive, in the same unit
};

// The measured runs that have the same settings.
struct Configuration {
  calibration::LearnedRun run;
  std::vector<std::size_t> members;  // indices of the measured runs
  // The prediction from all other configurations. None if no other configuration is similar.
  std::optional<calibration::LearnedRuns::Estimate> left_out{};
};

// The forecast errors of the runs with a setting, compared to the runs without the setting.
struct SettingResidual {
  std::string setting;  // "precision: fp8", "gpus: 64 or more"
  std::size_t runs = 0;
  double with = 0, without = 0;  // mean of log(measured / forecast) with and without the setting
};

struct RunFit {
  std::vector<Configuration> configurations;
  // The corrections learned from all configurations that are similar to another configuration, or
  // from the only configuration. None if there are several configurations, but no two are similar.
  std::optional<calibration::LearnedRuns> learned{};
  // Whether to use the corrections. With several configurations, leave-one-out cross-validation
  // must reduce the mean absolute error by more than one standard error of the reduction. (For this
  // rule, see L. Breiman et al. 1984, Classification and Regression Trees, section 3.4.)
  bool useful = false;
  std::vector<SettingResidual> settings;  // sorted by significance, highest first
};

// Fits corrections to measured runs. A single configuration determines only a factor, which cannot
// be checked. Uses at most LearnedRuns::kMostRuns configurations.
RunFit FitRuns(const std::vector<MeasuredRun>& runs);

}  // namespace stepcast::calibrate
