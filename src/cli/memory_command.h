#pragma once

#include <optional>

#include "src/cli/outcome.h"
#include "src/study/stage_memory.h"

namespace stepcast::cli {

struct MemoryOptions : study::MemoryQuestion {
  bool json = false;
  std::optional<double> fit_probability;  // below it the status is kMayNotFit
};

// The answer is no when the scenario's own stage does not fit; with `max_micro_batch`, when no
// micro-batch fits there.
Outcome Memory(const MemoryOptions& options);

}  // namespace stepcast::cli
