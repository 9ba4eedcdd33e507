#pragma once

#include <string>
#include <vector>

#include "src/runtime/device.h"

// The ranks of a run and their communication besides the program's own: start-up, gathering of
// results, failures. Three kinds: started by mpirun or srun (MPI), started with torchrun's
// environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; TCP), or threads of one process.
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
  // This machine's address at which the other ranks reach it, numerical; empty: it may be any.
  virtual std::string interface() const { return place().nodes == 1 ? "127.0.0.1" : ""; }

  // These are called by all ranks in the same order. A rank that is gone is a Failure that names
  // it.
  virtual Attempt<void> Barrier() = 0;
  // At rank 0 what every rank gave, by rank; empty elsewhere.
  virtual Attempt<std::vector<std::string>> Gather(std::string bytes) = 0;
  // What rank 0 gave; the others' argument is ignored.
  virtual Attempt<std::string> Broadcast(std::string bytes) = 0;
};

}  // namespace stepcast::runtime
