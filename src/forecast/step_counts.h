#pragma once

#include <cstdint>
#include <vector>

#include "src/program/program.h"

namespace stepcast::forecast {

// How often a step runs each entry of its program's tables: what follows from instructions alone,
// whatever sizes and prices the entries have.
struct StepCounts {
  // Micro-batches [first, end) that count so many times more: those of a longer step.
  struct More {
    int first = 0, end = 0;
    std::int64_t times = 0;
  };

  StepCounts() = default;
  explicit StepCounts(const program::Program& program) : StepCounts(program, More{}) {}
  StepCounts(const program::Program& program, const More& more);

  std::vector<std::uint32_t> kernels, collectives, exchanges, copies, host_tasks;  // by operand
};

}  // namespace stepcast::forecast
