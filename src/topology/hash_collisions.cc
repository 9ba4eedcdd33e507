#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "src/base/check.h"
#include "src/topology/cluster.h"

namespace stepcast::topology {
namespace {

// The largest connections x uplinks for which probabilities are exact.
constexpr std::int64_t kMostExact = 4096;

double LogPoisson(double mean, std::int64_t number) {
  const auto n = static_cast<double>(number);
  return n * std::log(mean) - mean - std::lgamma(n + 1);
}

// The probability that more than `most` of `connections` take one given uplink of `uplinks`.
double MoreThan(std::int64_t most, std::int64_t connections, std::int64_t uplinks) {
  if (uplinks == 1) return 1;
  const auto n = static_cast<double>(connections);
  const double log_p = -std::log(static_cast<double>(uplinks));
  const double log_q = std::log1p(-1 / static_cast<double>(uplinks));
  double sum = 0;
  for (std::int64_t k = most + 1; k <= connections; ++k) {
    const auto met = static_cast<double>(k);
    const double term = std::exp(std::lgamma(n + 1) - std::lgamma(met + 1) -
                                 std::lgamma(n - met + 1) + met * log_p + (n - met) * log_q);
    sum += term;
    if (met > n / static_cast<double>(uplinks) && term < 1e-15 * sum) break;
  }
  return std::min(sum, 1.0);
}

// The probability that no uplink of a leaf has more than `most` of its connections. If connections
// arrived as a Poisson process with mean connections / uplinks per uplink, the counts would be
// independent. Given their total, they are distributed as by the hash. So the result is P(total,
// and no count above `most`) / P(total).
double NoneAbove(std::int64_t most, std::int64_t connections, std::int64_t uplinks) {
  if (most >= connections) return 1;
  if (connections * uplinks > kMostExact) {
    return std::pow(1 - MoreThan(most, connections, uplinks), static_cast<double>(uplinks));
  }
  const double mean = static_cast<double>(connections) / static_cast<double>(uplinks);
  std::vector<double> own;  // of one uplink
  for (std::int64_t n = 0; n <= most; ++n) own.push_back(std::exp(LogPoisson(mean, n)));
  const auto all = static_cast<std::size_t>(connections);
  std::vector<double> together(all + 1), next(all + 1);
  together[0] = 1;
  for (std::int64_t uplink = 0; uplink < uplinks; ++uplink) {
    for (std::size_t sum = 0; sum <= all; ++sum) {
      double probability = 0;
      for (std::size_t n = 0; n < own.size() && n <= sum; ++n) {
        probability += own[n] * together[sum - n];
      }
      next[sum] = probability;
    }
    std::swap(together, next);
  }
  const double as_many = LogPoisson(static_cast<double>(connections), connections);
  return std::min(1.0, together[all] / std::exp(as_many));
}

}  // namespace

double ExpectedSlowdown(std::span<const HashedLeaves> leaves, std::int64_t uplinks, double part) {
  STEPCAST_CHECK(uplinks >= 1 && part > 0, "leaves have uplinks");
  std::int64_t least = 0, largest = 0;
  for (const HashedLeaves& some : leaves) {
    largest = std::max(largest, some.connections);
    least = std::max(least, (some.connections + uplinks - 1) / uplinks);
  }
  const auto slowdown = [&](std::int64_t met) {
    return std::max(1.0, static_cast<double>(met) * part);
  };
  double expected = slowdown(least);
  for (std::int64_t met = least; met < largest; ++met) {
    double none = 1;  // the probability that no more meet on any uplink
    for (const HashedLeaves& some : leaves) {
      none *= std::pow(NoneAbove(met, some.connections, uplinks), static_cast<double>(some.leaves));
    }
    const double worse = 1 - none;
    expected += (slowdown(met + 1) - slowdown(met)) * worse;
    if (worse < 1e-12) break;
  }
  return expected;
}

}  // namespace stepcast::topology
