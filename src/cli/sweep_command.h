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
  std::vector<std::string> vary;  // "KEY=V1,V2,..."
  bool json = false;
  bool csv = false;
  std::string report;  // HTML page to write; empty: none
  // Told how many rows of how many are done; from several threads, one at a time. May be empty.
  std::function<void(std::int64_t done, std::int64_t rows)> progress;
};

// Wrong input is what no combination cures: a file that cannot be read, a mistake that is there
// without --vary too, a key that does not exist. Combinations that are illegal by themselves are
// rows.
Outcome Sweep(const SweepOptions& options);

}  // namespace stepcast::cli
