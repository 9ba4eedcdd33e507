#pragma once

#include <cstddef>
#include <vector>

// Summary of repeated measurements: order statistics, which a few interrupted repetitions do not
// move.
namespace stepcast::calibrate {

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

}  // namespace stepcast::calibrate
