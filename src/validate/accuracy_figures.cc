#include "src/validate/accuracy_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stepcast::validate {
namespace {

constexpr std::size_t kLeastForRanks = 3;

// Ranks from 1; equal values share their mean rank.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    const double shared = static_cast<double>(first + last) / 2 + 1;
    for (std::size_t i = first; i <= last; ++i) ranks[order[i]] = shared;
    first = last + 1;
  }
  return ranks;
}

std::optional<double> RankCorrelation(const std::vector<Pair>& pairs) {
  if (pairs.size() < kLeastForRanks) return std::nullopt;
  std::vector<double> measured, forecast;
  for (const Pair& pair : pairs) {
    measured.push_back(pair.measured);
    forecast.push_back(pair.forecast);
  }
  const std::vector<double> a = RanksOf(measured), b = RanksOf(forecast);
  const double mean = static_cast<double>(pairs.size() + 1) / 2;
  double both = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    both += (a[i] - mean) * (b[i] - mean);
    of_a += (a[i] - mean) * (a[i] - mean);
    of_b += (b[i] - mean) * (b[i] - mean);
  }
  if (of_a == 0 || of_b == 0) return std::nullopt;
  return both / std::sqrt(of_a * of_b);
}

}  // namespace

AccuracyFigures FiguresOf(const std::vector<Pair>& pairs) {
  AccuracyFigures figures;
  figures.cases = pairs.size();
  if (pairs.empty()) return figures;
  const auto count = static_cast<double>(pairs.size());
  std::vector<double> errors;
  for (const Pair& pair : pairs) {
    figures.bias += pair.error() / count;
    figures.mean += std::abs(pair.error()) / count;
    errors.push_back(std::abs(pair.error()));
  }
  std::sort(errors.begin(), errors.end());
  const auto quantile = [&](double part) {
    const double rank = std::ceil(part * count);
    return errors[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  figures.median = quantile(0.5);
  figures.p90 = quantile(0.9);
  figures.rank_correlation = RankCorrelation(pairs);
  return figures;
}

}  // namespace stepcast::validate
