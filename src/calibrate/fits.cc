#include "src/calibrate/fits.h"

#include <algorithm>
#include <cstddef>

#include "src/base/check.h"
#include "src/calibrate/statistics.h"

namespace stepcast::calibrate {

Line FitLine(const std::vector<std::pair<double, double>>& points) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      const double distance = points[j].first - points[i].first;
      if (distance != 0) slopes.push_back((points[j].second - points[i].second) / distance);
    }
  }
  STEPCAST_CHECK(!slopes.empty(), "a line needs two points");
  Line line;
  line.slope = Median(std::move(slopes));
  std::vector<double> rests;
  for (const auto& [x, y] : points) rests.push_back(y - line.slope * x);
  line.at_zero = Median(std::move(rests));
  return line;
}

Line FitStartAndRate(const std::vector<std::pair<double, double>>& points) {
  STEPCAST_CHECK(points.size() >= 2, "a start and a rate need two points");
  std::vector<std::pair<double, double>> sorted = points;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t third = std::max<std::size_t>(sorted.size() / 3, 1);
  Line line;
  // Converges at once where the two parts lie far apart, as they do over decades of sizes.
  for (int round = 0; round < 20; ++round) {
    std::vector<double> slopes;
    for (std::size_t i = sorted.size() - third; i < sorted.size(); ++i) {
      slopes.push_back((sorted[i].second - line.at_zero) / sorted[i].first);
    }
    line.slope = std::max(Median(std::move(slopes)), 0.0);
    std::vector<double> starts;
    for (std::size_t i = 0; i < third; ++i) {
      starts.push_back(sorted[i].second - line.slope * sorted[i].first);
    }
    line.at_zero = std::max(Median(std::move(starts)), 0.0);
  }
  return line;
}

std::vector<double> NonDecreasing(std::vector<double> values) {
  struct Pool {
    double sum = 0;
    std::size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::size_t at = 0;
  for (const Pool& pool : pools) {
    if (pool.count == 1) {
      ++at;  // as it was: sums of one are exact, but nothing need show it
      continue;
    }
    for (std::size_t i = 0; i < pool.count; ++i) values[at++] = pool.mean();
  }
  return values;
}

}  // namespace stepcast::calibrate
