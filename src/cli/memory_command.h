#pragma once

#include "src/cli/outcome.h"
#include "src/study/stage_memory.h"

namespace stepcast::cli {

struct MemoryOptions : study::MemoryQuestion {
  bool json = false;
};

// The answer is no when the scenario's own stage does not fit; with `max_micro_batch`, when no
// micro-batch fits there.
Outcome Memory(const MemoryOptions& options);

}  // namespace stepcast::cli
