#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct SweepOptions {
  std::string scenario;
  std::vector<std::string> set;   // "KEY=VALUE"
  std::vector<std::string> vary;  // "KEY=V1,V2,...", ranges, "KEY=all"
  std::string store;              // a file that keeps results from run to run; empty: none
  int threads = 0;                // of each process; 0: one for each core that it may use
  bool json = false;
  bool jsonl = false;
  bool csv = false;
  std::string report;  // HTML page to write; empty: none
  // Told how many of all rows are done, and how many of those the store had; from several threads,
  // one at a time. May be empty.
  std::function<void(std::int64_t done, std::int64_t known, std::int64_t rows)> progress;
};

// Wrong input is what no combination cures: a file that cannot be read, a mistake that is there
// without --vary too, a key that does not exist. Combinations that are illegal by themselves are
// rows. Under mpirun all ranks work, and rank 0 keeps the store and has the output (spread.h).
Outcome Sweep(const SweepOptions& options);

}  // namespace stepcast::cli
