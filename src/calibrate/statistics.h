#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "src/base/time.h"

namespace stepcast::calibrate {

// Summary of repeated measurements: order statistics, which a few interrupted repetitions do not
// move.

// The value below which the part `q` of `values` lies (0 to 1), linear between neighbours. Requires
// at least one value.
double Quantile(std::vector<double> values, double q);
double Median(std::vector<double> values);

// Repetitions of one operation, in seconds.
struct Summary {
  double median = 0;
  double low = 0;     // 10th percentile
  double high = 0;    // 90th percentile
  double spread = 0;  // median absolute deviation / median
  std::size_t count = 0;
  friend bool operator==(const Summary&, const Summary&) = default;
};

// Requires at least one sample.
Summary Summarise(const std::vector<double>& samples);

// How uncertain the median is, relative to it: the spread shrinks with the root of the count.
// (The standard error of the median of normally distributed values with deviation s is
// 1.253 s / sqrt(n), and s is 1.483 median absolute deviations.)
double Uncertainty(const Summary& summary);

// Fits that outliers hardly move. They are small enough to be written out; a fitting library would
// earn its place with models of more than a line.

struct Line {
  double at_zero = 0;
  double slope = 0;
};

// Theil and Sen: the slope is the median of the slopes between all pairs of points, the value at
// zero the median of what that slope leaves over. Up to 29 % of the points may be anywhere.
// Requires two points of different x; quadratic in the number of points.
Line FitLine(const std::vector<std::pair<double, double>>& points);

// A start-up cost and a rate through (size, time): Theil and Sen's line in which each point counts
// relatively, so that large sizes do not drown small ones: the start is the median over the lower
// third of the sizes, the slope the median over the upper third, each given the other.
Line FitStartAndRate(const std::vector<std::pair<double, double>>& points);

// The non-decreasing values nearest to `values` in the least-squares sense: neighbours that fall
// are pooled to their mean (Ayer et al. 1955, "pool adjacent violators"). Times of growing work do
// not fall; where measured ones do, noise or a change of algorithm lies between.
std::vector<double> NonDecreasing(std::vector<double> values);

// How often something is measured.

struct Repetition {
  std::size_t least = 5;
  std::size_t most = 200;
  double uncertainty = 0.01;  // of the median, relative, at which it is known well enough
  Time limit = Seconds(1);    // device time spent on one point, unless `least` takes longer
  bool briefly = false;       // time is short: a quarter of the limit, long operations less often
};

// Whether a point that was measured so far with this result, in `spent` of device time, is done.
bool Enough(const Repetition& repetition, const Summary& so_far, Time spent);

// How many more repetitions to ask for at once, at least 1: what the uncertainty reached suggests,
// within the limits, and at most as many as there were (the first ones may mislead).
std::size_t NextBatch(const Repetition& repetition, const Summary& so_far, Time spent);

}  // namespace stepcast::calibrate
