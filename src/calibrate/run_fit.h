#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/calibration/learned_runs.h"
#include "src/calibration/run_settings.h"

// Statistics of measured runs: how well each is predicted from the others, and with which settings
// forecasts are off.
namespace stepcast::calibrate {

struct MeasuredRun {
  calibration::RunSettings settings;
  double measured = 0, forecast = 0;  // step times, above zero, of one unit
};

// Runs of equal settings.
struct Configuration {
  calibration::LearnedRun run;
  std::vector<std::size_t> members;  // of the measured runs
  // Its prediction from the others; none where no other is similar.
  std::optional<calibration::LearnedRuns::Estimate> left_out{};
};

// Runs with a setting take other times than forecast, and the others do not, or not as much.
struct SettingResidual {
  std::string setting;  // "precision: fp8", "gpus: 64 or more"
  std::size_t runs = 0;
  double with = 0, without = 0;  // mean of log(measured / forecast)
};

struct RunFit {
  std::vector<Configuration> configurations;
  // Of the configurations that are like another one; none where there are no two of them.
  std::optional<calibration::LearnedRuns> learned{};
  std::vector<SettingResidual> settings;  // the plainest first
};

// At most LearnedRuns::kMostRuns configurations.
RunFit FitRuns(const std::vector<MeasuredRun>& runs);

}  // namespace stepcast::calibrate
