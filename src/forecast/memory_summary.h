#pragma once

#include <cstddef>

#include "src/base/bytes.h"
#include "src/forecast/values.h"
#include "src/memory/account.h"
#include "src/plan/plan.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Memory of a scenario's devices and nodes beside what a program allocates.
namespace stepcast::forecast {

// Device memory of a rank outside of its allocator, with so many communicators: nothing in textbook
// data parallelism, and nothing where the profile does not say.
Bytes OutsideAllocator(const scenario::Scenario& scenario, std::size_t communicators);

// By such a part what the framework's allocator holds on the scenario's devices may be above the
// forecast (uncertainty.h); 0 without an allocator.
double MemoryErrorOf(const scenario::Scenario& scenario, plan::Framework framework);

// The probability that a rank fits whose allocator holds so much, beside so much outside of it: one
// or zero in textbook data parallelism, of which all is known.
double FitProbabilityOf(const scenario::Scenario& scenario, Bytes reserved, Bytes outside);

// Where the program's memory comes from.
memory::Device DeviceOf(const scenario::Scenario& scenario, const program::Program& program);

// `usage`: of a replay of the program on that device.
MemoryForecast SummariseMemory(const scenario::Scenario& scenario, const program::Program& program,
                               const memory::Usage& usage);

}  // namespace stepcast::forecast
