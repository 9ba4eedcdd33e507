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

// One collective on a scenario's cluster over a range of sizes: the output that nccl-tests would
// print there (with NCCL_TESTS_SPLIT for all groups of a layout at once). No framework is involved,
// so launches and copies cost nothing.
namespace stepcast::forecast {

// An algorithm or protocol that the cost model prices faster than NCCL's choice, without measured
// tables (cost/nccl_price.h).
struct FasterChoice {
  std::string algorithm;
  std::string protocol;
  Time time;    // modelled
  Time of_own;  // NCCL's own choice, also modelled
};

struct CollectiveRow {
  Bytes size;                           // as nccl-tests counts it (base/nccl_tests_convention.h)
  Time time;                            // of the group that ends last
  std::string algorithm;                // "ring", "tree", "table", ...
  std::optional<std::string> protocol;  // "simple", ...; none if a cost model has no protocols
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
  int groups = 1;     // groups of this many ranks that run at the same time
  std::string group;  // "all", "data", ...: which ranks they are
  scenario::Fidelity network = scenario::Fidelity::kAnalytic;
  std::vector<CollectiveRow> rows;

  double AlgorithmBandwidth(const CollectiveRow& row) const;  // GB/s; 0 for a time of zero
  double BusBandwidth(const CollectiveRow& row) const;        // GB/s
};

// The ranks that take part: a group of the plan, or numbers of ranks and nodes.
struct CollectiveGroup {
  std::string name;          // "data", "shard" or "replica" of rank 0; empty: by number
  std::optional<int> ranks;  // default: all GPUs of the nodes
  std::optional<int> nodes;  // default: the fewest that hold the ranks; all, if neither is given
  // All groups of the layout run at the same time: those of the plan or, for numbers, groups of the
  // cluster's other GPUs with as many ranks per node and nodes.
  bool siblings = false;
};

// Forecasts the collective for the sizes `from`, 2 `from`, ... up to and including `to`. The
// scenario's network decides whether times are prices or are simulated on the cluster's links.
// Requires 0 < from <= to. Errors: those of cost/price.h, and command.bad-group if the cluster has
// no such ranks.
Result<CollectiveForecast> ForecastCollective(const scenario::Scenario& scenario, CollectiveKind op,
                                              const CollectiveGroup& group, Bytes from, Bytes to);

}  // namespace stepcast::forecast
