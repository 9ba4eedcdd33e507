#pragma once

#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct MemoryOptions {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  bool json = false;
};

// The answer is no when the scenario's own stage does not fit.
Outcome Memory(const MemoryOptions& options);

}  // namespace stepcast::cli
