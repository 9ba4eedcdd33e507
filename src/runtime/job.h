#pragma once

#include <string>
#include <vector>

#include "src/runtime/device.h"

// The ranks of a run and their communication besides the program's own: start-up and gathering of
// results. Ranks are processes that mpirun or srun has started (MPI), or threads of one process.
namespace stepcast::runtime {

// A rank's placement.
struct Place {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // among the ranks of its node
  int local_ranks = 1;
  int node = 0;  // nodes are numbered by their lowest rank
  int nodes = 1;
  std::string host;  // the node's host name
};

class Job {
 public:
  virtual ~Job() = default;
  virtual const Place& place() const = 0;

  // These are called by all ranks in the same order. A rank that is gone is a Failure that names
  // it.
  virtual Attempt<void> Barrier() = 0;
  // At rank 0 what every rank gave, by rank; empty elsewhere.
  virtual Attempt<std::vector<std::string>> Gather(std::string bytes) = 0;
  // What rank 0 gave; the others' argument is ignored.
  virtual Attempt<std::string> Broadcast(std::string bytes) = 0;
};

}  // namespace stepcast::runtime
