#pragma once

#include <string>
#include <vector>

#include "src/runtime/device.h"

// The ranks of a run, and their communication at start-up and for results. Ranks are processes
// started by mpirun or srun (MPI), or threads of one process.
namespace stepcast::runtime {

// A rank's placement.
struct Place {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // among the ranks of its node
  int local_ranks = 1;
  int node = 0;  // nodes are numbered in the order of their lowest ranks
  int nodes = 1;
  std::string host;  // the node's host name
};

class Job {
 public:
  virtual ~Job() = default;
  virtual const Place& place() const = 0;

  // All ranks call these methods in the same order. If a rank is gone, they fail and name it.
  virtual Attempt<void> Barrier() = 0;
  // Returns at rank 0 the bytes of every rank, by rank; at other ranks nothing.
  virtual Attempt<std::vector<std::string>> Gather(std::string bytes) = 0;
  // Returns the bytes of rank 0. The argument of other ranks is ignored.
  virtual Attempt<std::string> Broadcast(std::string bytes) = 0;
};

}  // namespace stepcast::runtime
