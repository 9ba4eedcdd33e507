#pragma once

#include <cstddef>
#include <vector>

#include "src/calibration/run_settings.h"

// Corrects forecasts by measured runs, with a Gaussian process over log(measured / forecast step
// time) with prior mean zero. The more similar a run is to measured runs, the larger the
// correction. (C. E. Rasmussen, C. K. I. Williams 2006, Gaussian Processes for Machine Learning,
// chapter 2.)
//
// The squared distance d of two runs is a sum over the settings known for both runs: (doublings /
// 2)^2 for each numeric setting (RunSize), and 1 for each other setting (RunKind) that differs. The
// covariance is
//
//   near^2 exp(-d / 2) + wide^2 exp(-d / 32)
//
// The first term makes the errors of similar runs nearly equal, and the second term correlates the
// errors of less similar runs weakly. The constants are not fitted to the measured runs. Fitted
// constants are worse for runs that differ from all measured runs.
namespace stepcast::calibration {

// Standard deviations of log(measured / forecast). Forecasts have errors of about 5 % (`stepcast
// validate published`). The errors of dissimilar runs share a fifth of their variance. Repeated
// runs differ by 1 %.
inline constexpr double kNearDeviation = 0.045;
inline constexpr double kWideDeviation = 0.022;
inline constexpr double kRepeatDeviation = 0.01;

// The minimum likeness at which one run corrects the forecast of another run. Two runs have the
// minimum likeness if one numeric setting differs by a factor of 2^5.5, or if eight other settings
// (RunKind) differ.
inline constexpr double kLeastLikeness = 0.15;

// All measured runs with the same settings.
struct LearnedRun {
  RunSettings settings;
  double log_ratio = 0;  // mean of log(measured / forecast)
  int repeats = 1;
};

class LearnedRuns {
 public:
  // The largest number of runs. The constructor requires 1 to kMostRuns runs with different
  // settings.
  static constexpr std::size_t kMostRuns = 1000;
  explicit LearnedRuns(std::vector<LearnedRun> runs);

  // Returns the correlation between the forecast errors of two runs: near 0 for very different
  // settings, 1 for equal settings.
  static double Likeness(const RunSettings& a, const RunSettings& b);

  struct Estimate {
    double log_ratio = 0;  // estimate of log(measured / forecast)
    double deviation = 0;  // standard deviation of one measurement around log_ratio
    double known = 0;      // 0: no similar run; 1: as certain as a repeated run
  };
  // Returns the estimate for a run with these settings. Without a similar run, the estimate is zero
  // and `known` is 0.
  Estimate At(const RunSettings& settings) const;

  // Returns, for each run, the estimate from all other runs, in the order of the runs.
  std::vector<Estimate> LeavingOneOut() const;

  const std::vector<LearnedRun>& runs() const { return runs_; }

 private:
  std::vector<LearnedRun> runs_;
  std::vector<std::vector<double>> root_;  // lower triangle: Cholesky factor of the covariance
  std::vector<double> weights_;            // inverse covariance times log ratios
};

}  // namespace stepcast::calibration
