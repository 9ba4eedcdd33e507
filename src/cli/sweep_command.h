#pragma once

#include <string>

#include "src/cli/outcome.h"
#include "src/cli/work_command.h"
#include "src/study/sweep_run.h"

namespace stepcast::cli {

struct SweepOptions : study::SweepQuestion {
  std::string store;  // a file that keeps results from run to run; empty: none
  int threads = 0;    // of each process; 0: one for each core that it may use
  bool json = false;
  bool jsonl = false;
  bool csv = false;
  std::string report;  // HTML page to write; empty: none
};

// Wrong input is what no combination cures: a file that cannot be read, a mistake that is there
// without --vary too, a key that does not exist. Combinations that are illegal by themselves are
// rows. Under mpirun all ranks work, and rank 0 keeps the store and has the output
// (distributed_command.h).
Outcome Sweep(const SweepOptions& options, const RunWork& run_work);

}  // namespace stepcast::cli
