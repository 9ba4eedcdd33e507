#pragma once

#include <cstdint>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/program/program.h"

// Which collectives the step's exposed communication is made of.
namespace stepcast::forecast {

// A collective of the step, by its instruction.
struct ExposedCall {
  program::Index instruction = program::kNone;
  Time exposed;
};

// All calls that are exposed for some time, in host order; together the breakdown's exposed
// communication of the interval that `step` ends. Where several are in flight at an exposed instant
// it counts for the one that was ready first.
std::vector<ExposedCall> ExposedCalls(const ClassRun& run, std::uint32_t step);

}  // namespace stepcast::forecast
