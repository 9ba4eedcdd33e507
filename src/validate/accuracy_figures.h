#pragma once

#include <cstddef>
#include <optional>
#include <vector>

// How well numbers that were forecast meet numbers that were measured.
namespace stepcast::validate {

struct Pair {
  double measured = 0;  // above zero
  double forecast = 0;

  double error() const { return forecast / measured - 1; }
};

// Errors are parts of what was measured: 0.04 is 4 %.
struct AccuracyFigures {
  std::size_t cases = 0;
  double mean = 0;    // of absolute errors
  double median = 0;  // likewise; the lower one of an even number
  double p90 = 0;     // the smallest absolute error that nine of ten do not exceed
  double bias = 0;    // mean of errors with their signs
  // Spearman's rank correlation of forecast and measured, equal values sharing their mean rank.
  // None with fewer than three cases, or where all values of one side are equal.
  std::optional<double> rank_correlation;
};

AccuracyFigures FiguresOf(const std::vector<Pair>& pairs);

}  // namespace stepcast::validate
