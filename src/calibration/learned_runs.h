#pragma once

#include <cstddef>
#include <vector>

#include "src/calibration/run_settings.h"

// Corrects forecasts by measured runs: a Gaussian process over the logarithm of measured over
// forecast step time, with a prior of zero. Near a run, a forecast is corrected by its measurement;
// far from all runs it is unchanged. C. E. Rasmussen, C. K. I. Williams 2006, Gaussian Processes
// for Machine Learning, chapter 2.
//
// The squared distance d of two runs is a sum over the settings known for both: (doublings / 2)^2
// for each numeric setting (RunSize), and 1 for each other setting (RunKind) that differs. Two
// doublings count as much as another framework. The covariance is
//
//   near^2 exp(-d / 2) + wide^2 exp(-d / 32)
//
// so that similar runs have nearly equal errors, and less similar runs still have somewhat
// correlated errors. The constants are not fitted to the given runs: forecasts matter most for runs
// unlike the measured ones, for which fitted scales are worse.
namespace stepcast::calibration {

// Standard deviations of the logarithm of measured over forecast time. Forecasts have errors of
// about 5 % (`stepcast validate published`). A fifth of the variance of these errors is common to
// unlike runs. Repetitions differ by 1 %.
inline constexpr double kNearDeviation = 0.045;
inline constexpr double kWideDeviation = 0.022;
inline constexpr double kRepeatDeviation = 0.01;

// The smallest likeness at which runs correct one another's forecasts. Runs have this likeness if
// one of their sizes differs by five and a half doublings, or if eight of their kinds (RunKind)
// differ.
inline constexpr double kLeastLikeness = 0.15;

// The measured runs with one combination of settings.
struct LearnedRun {
  RunSettings settings;
  double log_ratio = 0;  // mean of log(measured / forecast)
  int repeats = 1;
};

class LearnedRuns {
 public:
  // The largest number of runs. There must be at least one run, and all must have different
  // settings.
  static constexpr std::size_t kMostRuns = 1000;
  explicit LearnedRuns(std::vector<LearnedRun> runs);

  // Returns the correlation between the errors of two runs. It is 0 for very different settings and
  // 1 for the same settings.
  static double Likeness(const RunSettings& a, const RunSettings& b);

  struct Estimate {
    double log_ratio = 0;  // of measured over forecast
    double deviation = 0;  // standard deviation of one measurement around log_ratio
    double known = 0;      // 0: no similar run; 1: as certain as a repetition
  };
  // Returns the estimate for a run with these settings. If all runs are too different, the estimate
  // is zero, with `known` 0.
  Estimate At(const RunSettings& settings) const;

  // Returns, for each run in order, the estimate that is computed from all other runs.
  std::vector<Estimate> LeavingOneOut() const;

  const std::vector<LearnedRun>& runs() const { return runs_; }

 private:
  std::vector<LearnedRun> runs_;
  std::vector<std::vector<double>> root_;  // lower triangle: Cholesky factor of the covariance
  std::vector<double> weights_;            // covariance^-1 log ratios
};

}  // namespace stepcast::calibration
