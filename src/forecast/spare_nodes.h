#pragma once

#include <cstdint>

namespace stepcast::forecast {

// A job's nodes and its spare nodes.
struct SpareNodes {
  std::int64_t nodes = 1;   // for which the job was planned
  std::int64_t spares = 0;  // healthy spare nodes at the start
  std::int64_t gpus_per_node = 1;
  std::int64_t gpus_per_replica = 1;  // GPUs that share one copy of the model
  bool elastic = false;               // continues with fewer replicas when no spares are left
  double node_rate = 0;               // failures of one node per second
  double repair = 0;                  // mean seconds until a failed node is repaired
};

// Mean throughput of the job, as a fraction of that with all replicas. While more nodes are in
// repair than there are spares, the job stands still or has fewer replicas. Nodes are repaired
// independently, so the number in repair is a birth-death process, whose stationary distribution
// depends only on the mean repair time (Erlang's loss system, for a job that stands still). A
// smaller batch counts by its samples. Restarts with another number of replicas are free here.
double MeanThroughput(const SpareNodes& pool);

}  // namespace stepcast::forecast
