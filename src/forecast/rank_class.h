#pragma once

#include <string>
#include <vector>

#include "src/plan/rank_grid.h"

namespace stepcast::forecast {

// A rank class is a set of ranks that run one program in equivalent surroundings. These fields
// describe it from lowering to the forecast; each is set when it becomes known.
struct RankClass {
  // Set when the class is lowered and priced.
  plan::RankLabel label{};  // the label of its ranks
  int node_kind = 0;        // the kind of their nodes (scenario/job_devices.h)
  std::string device{};     // the type of their devices, if the cluster has several
  int in_flight = 1;        // the most micro-batches whose activations a rank holds at once
  // Set when the class is simulated.
  double speed = 1;  // relative speed of its devices (Scenario::slow_devices)
  int first_rank = 0;
  int ranks = 1;               // number of ranks
  std::vector<int> members{};  // its ranks, ascending; empty if the class has all ranks
};

}  // namespace stepcast::forecast
