#pragma once

#include <cstdint>
#include <vector>

#include "src/program/program.h"

namespace stepcast::forecast {

// How often a step runs each entry of its program's tables: what follows from instructions alone,
// whatever sizes and prices the entries have.
struct StepCounts {
  StepCounts() = default;
  explicit StepCounts(const program::Program& program);

  std::vector<std::uint32_t> kernels, collectives, exchanges, copies, host_tasks;  // by operand
};

}  // namespace stepcast::forecast
