#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// One collective on a scenario's cluster over a range of sizes: what nccl-tests would print there
// (for all groups of a layout at once: with NCCL_TESTS_SPLIT). No framework is involved: no launch,
// no copies.
namespace stepcast::forecast {

// Another algorithm or protocol that NCCL may take and does not, although by the law of prices,
// without what was measured, it would be faster (cost/nccl_price.h).
struct FasterChoice {
  std::string algorithm;
  std::string protocol;
  Time time;    // by the law
  Time of_own;  // of NCCL's own choice, by the law, too
};

struct CollectiveRow {
  Bytes size;                           // as nccl-tests counts it (base/nccl_tests_convention.h)
  Time time;                            // of the group that ends last
  std::string algorithm;                // "ring", "tree", "table", ...
  std::optional<std::string> protocol;  // "simple", ...; none where a cost model has no protocols
  std::optional<int> channels;          // likewise
  cost::Provenance provenance = cost::Provenance::kModelled;
  // Holds nine of ten measured times (cost::SpreadOf); none where NCCL is not modelled.
  std::optional<TimeRange> range{};
  std::optional<FasterChoice> faster{};  // none: NCCL's choice is fastest, or is not modelled
};

struct CollectiveForecast {
  CollectiveKind op = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  int groups = 1;     // of so many ranks, at the same time
  std::string group;  // "all", "data", ...: which ranks they are
  scenario::Fidelity network = scenario::Fidelity::kAnalytic;
  std::vector<CollectiveRow> rows;

  double AlgorithmBandwidth(const CollectiveRow& row) const;  // GB/s; 0 for a time of zero
  double BusBandwidth(const CollectiveRow& row) const;        // GB/s
};

// The ranks that take part. Either a group of the plan, or numbers.
struct CollectiveGroup {
  std::string name;          // "data", "shard" or "replica" of rank 0; empty: by number
  std::optional<int> ranks;  // default: all GPUs of the nodes
  std::optional<int> nodes;  // default: as few as hold the ranks; all, if neither is given
  // All groups of the same layout, too, at the same time: those of the plan, or, by number, those
  // of the cluster's other GPUs, as many of a node and on as many nodes.
  bool siblings = false;
};

// By its price, or on the cluster's links as the scenario's network says; alone on the cluster, or
// beside the group's siblings.
// Rows for `from`, 2 `from`, ... up to and including `to`. Requires 0 < from <= to. Besides what
// pricing reports (cost/price.h): command.bad-group, when the cluster has no such ranks.
Result<CollectiveForecast> ForecastCollective(const scenario::Scenario& scenario, CollectiveKind op,
                                              const CollectiveGroup& group, Bytes from, Bytes to);

}  // namespace stepcast::forecast
