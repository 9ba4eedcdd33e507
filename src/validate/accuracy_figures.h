#pragma once

#include <cstddef>
#include <optional>
#include <vector>

// Accuracy of forecast values compared with measured values.
namespace stepcast::validate {

struct Pair {
  double measured = 0;  // positive
  double forecast = 0;

  double error() const { return forecast / measured - 1; }
};

// Errors are fractions of the measured value: 0.04 is 4 %.
struct AccuracyFigures {
  std::size_t cases = 0;
  double mean = 0;    // of absolute errors
  double median = 0;  // of absolute errors; of two middle values, the lower
  double p90 = 0;     // smallest value that 90 % of absolute errors do not exceed
  double bias = 0;    // mean of signed errors
  // Spearman's rank correlation of forecast and measured values; equal values share their mean
  // rank. None with fewer than three cases, or if all values of one side are equal.
  std::optional<double> rank_correlation;
};

AccuracyFigures FiguresOf(const std::vector<Pair>& pairs);

}  // namespace stepcast::validate
