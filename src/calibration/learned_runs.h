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
// for each size, and 1 for each kind that differs. Two doublings count as much as another
// framework. The covariance is
//
//   near^2 exp(-d / 2) + wide^2 exp(-d / 32)
//
// so that similar runs have nearly equal errors, and less similar runs still have somewhat equal
// ones. The constants are not fitted to the given runs. Forecasts matter most for runs unlike the
// measured ones, for which fitted scales are worse.
namespace stepcast::calibration {

// Standard deviations of the logarithm. Forecasts have errors of some 5 % (`stepcast validate
// published`), of which a fifth, in variance, is common to unlike runs; repeats differ by 1 %.
inline constexpr double kNearDeviation = 0.045;
inline constexpr double kWideDeviation = 0.022;
inline constexpr double kRepeatDeviation = 0.01;

// Runs with a smaller likeness do not correct one another's forecasts: from five and a half
// doublings of one size, or eight different kinds.
inline constexpr double kLeastLikeness = 0.15;

// Runs of equal settings.
struct LearnedRun {
  RunSettings settings;
  double log_ratio = 0;  // mean of log(measured / forecast)
  int repeats = 1;
};

class LearnedRuns {
 public:
  // At least one run and at most kMostRuns, all with different settings.
  static constexpr std::size_t kMostRuns = 1000;
  explicit LearnedRuns(std::vector<LearnedRun> runs);

  // The correlation of the errors of two runs: 0 for very different settings, 1 for equal ones.
  static double Likeness(const RunSettings& a, const RunSettings& b);

  struct Estimate {
    double log_ratio = 0;  // of measured over forecast
    double deviation = 0;  // standard deviation of one measurement around it
    double known = 0;      // 0: no similar run; 1: only repeats differ
  };
  // Zero with known 0 if all runs are far.
  Estimate At(const RunSettings& settings) const;

  // The estimate of each run from all others, in the order of the runs.
  std::vector<Estimate> LeavingOneOut() const;

  const std::vector<LearnedRun>& runs() const { return runs_; }

 private:
  std::vector<LearnedRun> runs_;
  std::vector<std::vector<double>> root_;  // lower triangle of the covariance's Cholesky factor
  std::vector<double> weights_;            // covariance^-1 log ratios
};

}  // namespace stepcast::calibration
