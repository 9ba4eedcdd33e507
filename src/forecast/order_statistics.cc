#include "src/forecast/order_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace stepcast::forecast {
namespace {

constexpr std::size_t kSteps = 512;

// A distribution over kSteps + 1 points at equal distances.
using Distribution = std::vector<double>;

// A probability at a place between two points, which share it so that its mean stays.
void Add(double place, double probability, Distribution& distribution) {
  const auto below = std::min(static_cast<std::size_t>(place), kSteps);
  const double part = place - static_cast<double>(below);
  distribution[below] += probability * (1 - part);
  if (part > 0) distribution[below + 1] += probability * part;
}

// The mean of values of which so many have the mean of `a` and so many that of `b`.
Distribution MeanOf(const Distribution& a, std::int64_t of_a, const Distribution& b,
                    std::int64_t of_b) {
  Distribution mean(kSteps + 1, 0);
  const double weight = static_cast<double>(of_a) / static_cast<double>(of_a + of_b);
  for (std::size_t i = 0; i <= kSteps; ++i) {
    if (a[i] == 0) continue;
    for (std::size_t j = 0; j <= kSteps; ++j) {
      if (b[j] == 0) continue;
      const double place =
          static_cast<double>(j) + weight * (static_cast<double>(i) - static_cast<double>(j));
      Add(std::clamp(place, 0.0, static_cast<double>(kSteps)), a[i] * b[j], mean);
    }
  }
  return mean;
}

Distribution MeanOfDraws(Distribution draw, std::int64_t draws) {
  Distribution mean;
  std::int64_t of_mean = 0;
  for (std::int64_t doubled = 1;; doubled *= 2) {
    if ((draws & doubled) != 0) {
      mean = of_mean == 0 ? draw : MeanOf(mean, of_mean, draw, doubled);
      of_mean += doubled;
    }
    if (of_mean == draws) return mean;
    draw = MeanOf(draw, doubled, draw, doubled);
  }
}

}  // namespace

std::vector<double> OfLargest(std::span<const double> probabilities, double draws) {
  std::vector<double> largest;
  double cumulated = 0, below = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    cumulated = i + 1 == probabilities.size() ? 1 : std::min(1.0, cumulated + probabilities[i]);
    const double up_to = std::pow(cumulated, draws);
    largest.push_back(up_to - below);
    below = up_to;
  }
  return largest;
}

double MeanOfLargest(std::span<const double> values, std::span<const double> probabilities,
                     std::int64_t draws, std::int64_t ranks) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double range = *most - *least;
  if (range == 0) return *least;
  Distribution draw(kSteps + 1, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Add((values[i] - *least) / range * static_cast<double>(kSteps), probabilities[i], draw);
  }
  const std::vector<double> largest =
      OfLargest(MeanOfDraws(std::move(draw), draws), static_cast<double>(ranks));
  double place = 0;
  for (std::size_t i = 0; i <= kSteps; ++i) place += largest[i] * static_cast<double>(i);
  return *least + range * place / static_cast<double>(kSteps);
}

}  // namespace stepcast::forecast
