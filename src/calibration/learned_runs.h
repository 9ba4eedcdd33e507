#pragma once

#include <cstddef>
#include <vector>

#include "src/calibration/run_settings.h"

// Corrections of forecasts by measured runs: a Gaussian process over the logarithm of measured over
// forecast step time, with a prior of zero. Near a run a forecast is corrected by what was measured
// there; far from all runs it stays as it is. C. E. Rasmussen, C. K. I. Williams 2006, Gaussian
// Processes for Machine Learning, chapter 2.
//
// The squared distance d of two runs adds up (doublings / 2)^2 for each size and 1 for each kind
// that differs, of those that are known of both: two doublings are as much as another framework.
// Their covariance is
//
//   near^2 exp(-d / 2) + wide^2 exp(-d / 32)
//
// so that runs which differ in little are off alike, and those that differ in more still a little.
// The figures are not fitted to the runs at hand: the forecasts that matter are of runs unlike
// those that were measured, which scales fitted to the measured ones serve worse.
namespace stepcast::calibration {

// Standard deviations of the logarithm: forecasts are off by some 5 % (`stepcast validate
// published`), of which a fifth, in variance, holds for runs that are unlike; repeats differ by 1
// %.
inline constexpr double kNearDeviation = 0.045;
inline constexpr double kWideDeviation = 0.022;
inline constexpr double kRepeatDeviation = 0.01;

// Below this likeness runs are far from one another and do not correct one another's forecasts:
// from five and a half doublings of one size on, or eight other kinds.
inline constexpr double kLeastLikeness = 0.15;

// Runs of equal settings.
struct LearnedRun {
  RunSettings settings;
  double log_ratio = 0;  // mean of log(measured / forecast)
  int repeats = 1;
};

class LearnedRuns {
 public:
  // At most kMostRuns runs, all of different settings; at least one.
  static constexpr std::size_t kMostRuns = 1000;
  explicit LearnedRuns(std::vector<LearnedRun> runs);

  // From 0, far apart, to 1, the same settings: the correlation of what forecasts are off by.
  static double Likeness(const RunSettings& a, const RunSettings& b);

  struct Estimate {
    double log_ratio = 0;  // of measured over forecast
    double deviation = 0;  // standard, of one measurement around it
    double known = 0;      // 0: no run is like it; 1: only repeats differ
  };
  // Nothing, known 0, where all runs are far.
  Estimate At(const RunSettings& settings) const;

  // What is estimated for each run from all others, in the order of the runs.
  std::vector<Estimate> LeavingOneOut() const;

  const std::vector<LearnedRun>& runs() const { return runs_; }

 private:
  std::vector<LearnedRun> runs_;
  std::vector<std::vector<double>> root_;  // lower triangle of the covariance's Cholesky factor
  std::vector<double> weights_;            // covariance^-1 log ratios
};

}  // namespace stepcast::calibration
