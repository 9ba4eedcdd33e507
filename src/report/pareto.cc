#include "src/report/pareto.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "src/base/check.h"

namespace stepcast::report {

std::vector<bool> ParetoFront(const std::vector<double>& x, const std::vector<double>& y) {
  STEPCAST_CHECK(x.size() == y.size(), "a point has two figures");
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return x[a] != x[b] ? x[a] < x[b] : y[a] < y[b]; });
  std::vector<bool> front(x.size());
  double best = std::numeric_limits<double>::infinity();  // y of all with a smaller x
  for (std::size_t i = 0; i < order.size();) {
    // Of those with the same x only the lowest y can be on it.
    const double least = y[order[i]];
    std::size_t end = i;
    for (; end < order.size() && x[order[end]] == x[order[i]]; ++end) {
      front[order[end]] = y[order[end]] == least && least < best;
    }
    best = std::min(best, least);
    i = end;
  }
  return front;
}

}  // namespace stepcast::report
