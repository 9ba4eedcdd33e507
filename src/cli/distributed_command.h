#pragma once

#include <functional>
#include <optional>
#include <string>

#include "src/cli/outcome.h"
#include "src/planner/worker_pool.h"

// Commands that spread independent pieces of work over all cores: of this process, or of all ranks
// if mpirun (or srun with PMI) started several.
namespace stepcast::cli {

struct DistributedCommand {
  std::string scenario;  // names the command's input where ranks do not agree
  int threads = 0;       // of each rank; 0: one for each core that it may use
  // Called first, on every rank: reads the input. An outcome is the end; rank 0 prints it.
  std::function<std::optional<Outcome>()> prepare;
  // Called next if there are several ranks, on every rank: text that must be the same on all, or
  // they would not do the same work (study/run_facts.h).
  std::function<std::string()> fingerprint;
  // What is done with an item.
  planner::Work work;
  // Called at rank 0 alone.
  std::function<Outcome(planner::WorkerPool& pool)> run;
};

// A rank that dies, hangs or fails ends all of them with a sentence that names it
// (runtime/watch.h).
Outcome RunDistributed(const DistributedCommand& command);

}  // namespace stepcast::cli
