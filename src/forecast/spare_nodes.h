#pragma once

#include <cstdint>

namespace stepcast::forecast {

// A job's nodes and the spares beside them.
struct SpareNodes {
  std::int64_t nodes = 1;   // that the job was planned for
  std::int64_t spares = 0;  // healthy nodes beside them, at first
  std::int64_t gpus_per_node = 1;
  std::int64_t gpus_per_replica = 1;  // that share one copy of the model
  bool elastic = false;               // goes on with fewer replicas where spares have run out
  double node_rate = 0;               // failures of one node per second
  double repair = 0;                  // mean seconds until a failed node is a spare again
};

// How much the job does on average, over what all of its replicas do: it stands still, or has fewer
// replicas, while more nodes are in repair than there are spares. Each node is repaired by itself;
// the nodes in repair are a birth-death process, whose stationary distribution depends on repair
// times by their mean alone (Erlang's loss system, for a job that stands still). A smaller batch
// counts by its samples. Restarts with another number of replicas cost nothing here.
double MeanThroughput(const SpareNodes& pool);

}  // namespace stepcast::forecast
