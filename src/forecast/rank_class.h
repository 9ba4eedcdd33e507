#pragma once

#include <string>
#include <vector>

#include "src/plan/rank_grid.h"

namespace stepcast::forecast {

// A class of ranks are those that run one program in equivalent surroundings. These are its facts.
// They go with the class from its label to its forecast, so a further fact is a field here, set
// where it becomes known.
struct RankClass {
  // Known when the class is lowered and priced.
  plan::RankLabel label{};  // the label of its ranks
  int node_kind = 0;        // the kind of their nodes (scenario/job_devices.h)
  std::string device{};     // the type of their devices, where the cluster has several
  int in_flight = 1;        // the most micro-batches whose activations a rank holds at once
  // Known when it is simulated.
  double speed = 1;  // of its devices, 1 being as described (Scenario::slow_devices)
  int first_rank = 0;
  int ranks = 1;               // how many ranks the class has
  std::vector<int> members{};  // its ranks, ascending; empty where the class has all ranks
};

}  // namespace stepcast::forecast
