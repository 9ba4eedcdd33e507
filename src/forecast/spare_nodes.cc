#include "src/forecast/spare_nodes.h"

#include <algorithm>

namespace stepcast::forecast {
namespace {

// With so many nodes in repair, over all replicas.
double ThroughputWith(const SpareNodes& pool, std::int64_t in_repair) {
  if (in_repair <= pool.spares) return 1;
  if (!pool.elastic) return 0;
  const std::int64_t left = pool.nodes + pool.spares - in_repair;
  const auto replicas = [&](std::int64_t nodes) {
    return nodes * pool.gpus_per_node / pool.gpus_per_replica;
  };
  return static_cast<double>(replicas(left)) /
         static_cast<double>(std::max<std::int64_t>(1, replicas(pool.nodes)));
}

}  // namespace

double MeanThroughput(const SpareNodes& pool) {
  const double births = pool.node_rate * static_cast<double>(pool.nodes) * pool.repair;
  double weight = 1, total = 0, done = 0;
  for (std::int64_t in_repair = 0;; ++in_repair) {
    const double throughput = ThroughputWith(pool, in_repair);
    total += weight;
    done += weight * throughput;
    const double next = weight * births * throughput / static_cast<double>(in_repair + 1);
    constexpr double kNegligible = 1e-18, kLarge = 1e200;
    if (next <= kNegligible * total) return done / total;
    weight = next;
    if (weight > kLarge) {
      total /= weight;
      done /= weight;
      weight = 1;
    }
  }
}

}  // namespace stepcast::forecast
