#pragma once

#include <string>
#include <vector>

#include "src/plan/rank_label.h"

namespace stepcast::forecast {

// The facts of a class of ranks: of ranks that run one program in equivalent surroundings. They go
// with the class from its label to its forecast, so a further fact is a field here, set where it
// becomes known.
struct RankClass {
  // Known when the class is lowered and priced.
  plan::RankLabel label{};  // its ranks'
  int node_kind = 0;        // of their nodes (scenario/node_kinds.h)
  std::string device{};     // their type, where the cluster has several
  int in_flight = 1;        // most micro-batches whose activations are held
  // Known when it is simulated.
  double speed = 1;  // of its devices (Scenario::slow_devices)
  int first_rank = 0;
  int ranks = 1;               // how many they are
  std::vector<int> members{};  // these, ascending; empty: all that there are
};

}  // namespace stepcast::forecast
