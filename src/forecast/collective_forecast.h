#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/collective/rounds.h"
#include "src/cost/demand.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// Forecasts one collective on a scenario's cluster over a range of sizes. The forecast corresponds
// to the output of nccl-tests on the cluster. If all groups of a layout communicate at once, it
// corresponds to nccl-tests with NCCL_TESTS_SPLIT. No framework is involved, so launches and copies
// cost nothing.
namespace stepcast::forecast {

// An algorithm or protocol that the cost model, without measured tables, prices faster than NCCL's
// choice (cost/nccl_price.h).
struct FasterChoice {
  std::string algorithm;
  std::string protocol;
  Time time;    // modeled
  Time of_own;  // of NCCL's own choice, also modeled
};

struct CollectiveRow {
  Bytes size;                           // as nccl-tests counts it (base/nccl_tests_convention.h)
  Time time;                            // time of the group that ends last
  std::string algorithm;                // "ring", "tree", "table", ...
  std::optional<std::string> protocol;  // "simple", ...; none if the cost model has no protocols
  std::optional<int> channels;          // none if the cost model has no protocols
  cost::Provenance provenance = cost::Provenance::kModelled;
  // The range that contains 90 % of measured times (cost::SpreadOf). None if NCCL is not modeled.
  std::optional<TimeRange> range{};
  std::optional<FasterChoice> faster{};  // none: NCCL's choice is fastest or not modeled
};

struct CollectiveForecast {
  CollectiveKind op = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  int groups = 1;     // number of groups of this size that run at the same time
  std::string group;  // which ranks form the group: "all", "data", ...
  scenario::Fidelity network = scenario::Fidelity::kAnalytic;
  std::vector<CollectiveRow> rows;

  double AlgorithmBandwidth(const CollectiveRow& row) const;  // GB/s; 0 for a time of zero
  double BusBandwidth(const CollectiveRow& row) const;        // GB/s
};

// The ranks that take part in a collective: a group of the plan, or a number of ranks and nodes.
struct CollectiveGroup {
  std::string name;          // "data", "shard" or "replica" of rank 0; empty: given by numbers
  std::optional<int> ranks;  // default: all GPUs of the nodes
  std::optional<int> nodes;  // default: the fewest that contain the ranks; if neither is given, all
  // Whether all groups of the layout run the collective at the same time. For a group of the plan,
  // these are the plan's groups. For a group given by numbers, they are groups of the cluster's
  // other GPUs with the same ranks per node and number of nodes.
  bool siblings = false;
};

// Forecasts the collective for the sizes `from`, 2 `from`, ... up to and including `to`. Depending
// on the scenario's network, times come from the cost model or from a simulation of the cluster's
// links. Requires 0 < from <= to. Errors: those of cost/price.h; command.bad-group if the cluster
// does not have the ranks.
Result<CollectiveForecast> ForecastCollective(const scenario::Scenario& scenario, CollectiveKind op,
                                              const CollectiveGroup& group, Bytes from, Bytes to);

// The messages of an algorithm among the ranks of a collective.
struct CollectiveSteps {
  std::string algorithm;  // "ring", "tree", "nvls", ...
  Bytes size;             // the first size of the rows for which it is taken
  int channels = 1;
  std::int64_t blocks = 1;                      // that Chunk counts
  std::vector<std::string> participants;        // "rank 3", "switch 0"
  std::vector<collective::SentChunk> messages;  // of one channel
};

// The largest number of ranks for which a collective's steps are drawn.
inline constexpr int kMostDrawnRanks = 16;

// Returns the steps of every algorithm that the forecast uses for some size. Empty for more than
// kMostDrawnRanks ranks. Errors: cost.no-network, and those of ForecastCollective.
Result<std::vector<CollectiveSteps>> StepsOf(const scenario::Scenario& scenario,
                                             const CollectiveGroup& group,
                                             const CollectiveForecast& forecast);

}  // namespace stepcast::forecast
