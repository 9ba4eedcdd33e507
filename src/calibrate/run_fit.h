#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/calibration/learned_runs.h"
#include "src/calibration/run_settings.h"

// Statistics of measured runs: how well each is predicted from the others, and which settings cause
// errors of forecasts.
namespace stepcast::calibrate {

struct MeasuredRun {
  calibration::RunSettings settings;
  double measured = 0, forecast = 0;  // step times, positive, in one unit
};

// Runs of equal settings.
struct Configuration {
  calibration::LearnedRun run;
  std::vector<std::size_t> members;  // indices of the measured runs
  // Its prediction from the other configurations; none if no other is similar.
  std::optional<calibration::LearnedRuns::Estimate> left_out{};
};

// A setting whose runs differ from their forecasts, more than other runs do.
struct SettingResidual {
  std::string setting;  // "precision: fp8", "gpus: 64 or more"
  std::size_t runs = 0;
  double with = 0, without = 0;  // mean of log(measured / forecast)
};

struct RunFit {
  std::vector<Configuration> configurations;
  // Learned from the configurations that have a similar one, or from the only one. None if there are
  // several and no two are similar.
  std::optional<calibration::LearnedRuns> learned{};
  std::vector<SettingResidual> settings;  // most significant first
};

// The only configuration teaches one factor, which no other checks. Uses at most LearnedRuns::kMostRuns configurations.
RunFit FitRuns(const std::vector<MeasuredRun>& runs);

}  // namespace stepcast::calibrate
