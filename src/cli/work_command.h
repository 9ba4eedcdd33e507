#pragma once

#include <functional>
#include <optional>
#include <string>

#include "src/cli/outcome.h"
#include "src/planner/worker_pool.h"

// Commands that spread independent pieces of work over all cores.
namespace stepcast::cli {

struct WorkCommand {
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

// How a program runs such a command: on its own threads, or on those of several processes.
using RunWork = std::function<Outcome(const WorkCommand& command)>;

// On the threads of this process.
Outcome RunOnThreads(const WorkCommand& command);

}  // namespace stepcast::cli
