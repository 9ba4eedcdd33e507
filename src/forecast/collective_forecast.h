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

// Forecasts one collective on a scenario's cluster for several sizes, like nccl-tests. If all
// groups of a layout communicate at once, the forecast is like nccl-tests with NCCL_TESTS_SPLIT.
// Launches and copies take no time.
namespace stepcast::forecast {

// An algorithm or protocol that, by the cost model without measured tables, is faster than NCCL's
// choice (cost/nccl_price.h).
struct FasterChoice {
  std::string algorithm;
  std::string protocol;
  Time time;    // modeled time of this choice
  Time of_own;  // modeled time of NCCL's choice
};

struct CollectiveRow {
  Bytes size;                           // as defined by nccl-tests (base/nccl_tests_convention.h)
  Time time;                            // time of the slowest group
  std::string algorithm;                // "ring", "tree", "table", ...
  std::optional<std::string> protocol;  // "simple", ...; none if protocols are not modeled
  std::optional<int> channels;          // none if protocols are not modeled
  cost::Provenance provenance = cost::Provenance::kModelled;
  // The range that contains 90 % of measured times (cost::SpreadOf). None if NCCL is not modeled.
  std::optional<TimeRange> range{};
  std::optional<FasterChoice> faster{};  // none: NCCL's choice is fastest, or NCCL is not modeled
};

struct CollectiveForecast {
  CollectiveKind op = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  int groups = 1;     // number of groups that communicate at the same time
  std::string group;  // the plan's group: "all", "data", ...
  scenario::Fidelity network = scenario::Fidelity::kAnalytic;
  std::vector<CollectiveRow> rows;

  double AlgorithmBandwidth(const CollectiveRow& row) const;  // in GB/s; 0 if the time is zero
  double BusBandwidth(const CollectiveRow& row) const;        // in GB/s
};

// The ranks of a collective: a group of the plan, or a number of ranks and nodes.
struct CollectiveGroup {
  std::string name;          // the group of rank 0: "data", "shard" or "replica"; may be empty
  std::optional<int> ranks;  // none: all GPUs of the nodes
  std::optional<int> nodes;  // none: the fewest nodes with `ranks` GPUs; without `ranks`, all nodes
  // Whether all groups of the layout run the collective at the same time. If `ranks` and `nodes`
  // specify the group, the other GPUs form groups with as many nodes, and as many ranks per node.
  bool siblings = false;
};

// Forecasts the collective for the sizes `from`, 2 `from`, ... up to `to`. Times are from the cost
// model or from a simulation of the cluster's links, depending on the scenario's network. Requires
// 0 < from <= to. Errors: the errors of cost/price.h; command.bad-group if the cluster has too few
// ranks.
Result<CollectiveForecast> ForecastCollective(const scenario::Scenario& scenario, CollectiveKind op,
                                              const CollectiveGroup& group, Bytes from, Bytes to);

// The messages of an algorithm among the ranks of a collective.
struct CollectiveSteps {
  std::string algorithm;  // "ring", "tree", "nvls", ...
  Bytes size;             // smallest size of the rows with this algorithm
  int channels = 1;
  std::int64_t blocks = 1;                      // number of blocks of the data (Chunk::block)
  std::vector<std::string> participants;        // "rank 3", "switch 0"
  std::vector<collective::SentChunk> messages;  // messages of one channel
};

// The largest number of ranks for which StepsOf returns steps to draw.
inline constexpr int kMostDrawnRanks = 16;

// Returns the steps of every algorithm in the forecast. Empty for more than kMostDrawnRanks ranks.
// Errors: cost.no-network, and the errors of ForecastCollective.
Result<std::vector<CollectiveSteps>> StepsOf(const scenario::Scenario& scenario,
                                             const CollectiveGroup& group,
                                             const CollectiveForecast& forecast);

}  // namespace stepcast::forecast
