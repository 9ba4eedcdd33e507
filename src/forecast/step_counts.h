#pragma once

#include <cstdint>
#include <vector>

#include "src/program/longer_step.h"
#include "src/program/program.h"

namespace stepcast::forecast {

// How often a step runs each entry of its program's tables: what follows from instructions alone,
// whatever sizes and prices the entries have.
struct StepCounts {
  StepCounts() = default;
  explicit StepCounts(const program::Program& program) : StepCounts(program, {}) {}
  // These counts are those of the longer step that the program stands for.
  StepCounts(const program::Program& program, const program::LongerStep& longer);

  std::vector<std::uint32_t> kernels, collectives, exchanges, copies, host_tasks;  // by operand
};

}  // namespace stepcast::forecast
