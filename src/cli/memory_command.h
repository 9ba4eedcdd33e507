#pragma once

#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct MemoryOptions {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  bool json = false;
  bool max_micro_batch = false;  // also the largest micro-batch that fits, at each stage
};

// The answer is no when the scenario's own stage does not fit; with `max_micro_batch`, when no
// micro-batch fits there.
Outcome Memory(const MemoryOptions& options);

}  // namespace stepcast::cli
