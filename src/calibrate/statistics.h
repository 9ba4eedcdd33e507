#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "src/base/time.h"

namespace stepcast::calibrate {

// Summarizes repeated measurements by order statistics, which are robust against a few interrupted
// repetitions.

// Returns the `q`-quantile of `values` (q from 0 to 1), interpolated linearly. Requires at least
// one value.
double Quantile(std::vector<double> values, double q);
double Median(std::vector<double> values);

// A summary of repeated measurements of one operation. Times are in seconds.
struct Summary {
  double median = 0;
  double low = 0;     // 10th percentile
  double high = 0;    // 90th percentile
  double spread = 0;  // median absolute deviation divided by the median
  std::size_t count = 0;
  friend bool operator==(const Summary&, const Summary&) = default;
};

// Returns the summary of samples. Requires at least one sample.
Summary Summarise(const std::vector<double>& samples);

// Returns the relative uncertainty of the median: the standard error 1.253 x s / sqrt(n) of n
// normally distributed values, whose median absolute deviation is s / 1.483.
double Uncertainty(const Summary& summary);

// Line fits that are robust against outliers.

struct Line {
  double at_zero = 0;
  double slope = 0;
};

// Fits a line by the Theil-Sen estimator. The slope is the median of the slopes between all pairs
// of points, and `at_zero` is the median of y minus slope times x. Up to 29 % of the points may be
// outliers. Requires two points with different x. Takes quadratic time.
Line FitLine(const std::vector<std::pair<double, double>>& points);

// Fits a start-up cost and a rate to points of size and time. The first fit is a Theil-Sen line
// with relative weights, so that the largest sizes do not dominate. The start is then the median
// over the smallest third of the sizes, given the slope. The slope is the median over the largest
// third, given the start.
Line FitStartAndRate(const std::vector<std::pair<double, double>>& points);

// Returns the non-decreasing values with the smallest squared distance: decreasing neighbors are
// replaced by their mean (Ayer et al. 1955, "pool adjacent violators"). A time that decreases with
// size is noise or a change of algorithm.
std::vector<double> NonDecreasing(std::vector<double> values);

// Limits on the repetitions of a measurement.

struct Repetition {
  std::size_t least = 5;
  std::size_t most = 200;
  double uncertainty = 0.01;  // target for the relative uncertainty of the median
  Time limit = Seconds(1);    // device time per point, except for `least` repetitions
  // If true, the limit is reduced to a quarter, and long operations are repeated less often.
  bool briefly = false;
};

// Returns whether a point needs no more repetitions, given its result `so_far` and its device time
// `spent`.
bool Enough(const Repetition& repetition, const Summary& so_far, Time spent);

// Returns the number of further repetitions, at least 1: as many as the uncertainty requires,
// within the limits. At most doubles the number so far, because the first results may be
// misleading.
std::size_t NextBatch(const Repetition& repetition, const Summary& so_far, Time spent);

}  // namespace stepcast::calibrate
