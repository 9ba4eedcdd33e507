#pragma once

#include <string>
#include <vector>

#include "src/plan/rank_grid.h"

namespace stepcast::forecast {

// A rank class is a set of ranks that run one program with equivalent peers. These fields describe
// the class from lowering to the forecast; each is set when its value becomes known.
struct RankClass {
  // Set when the class is lowered and priced.
  plan::RankLabel label{};  // the label of its ranks
  int node_kind = 0;        // the kind of their nodes (scenario/job_devices.h)
  std::string device{};     // the type of their devices, if the cluster has several
  int in_flight = 1;        // maximum number of micro-batches whose activations a rank stores at
                            // once
  // Set when the class is simulated.
  double speed = 1;  // relative speed of its devices (Scenario::slow_devices)
  int first_rank = 0;
  int ranks = 1;               // number of ranks
  std::vector<int> members{};  // the class's ranks, ascending; empty if the class has all ranks
};

}  // namespace stepcast::forecast
