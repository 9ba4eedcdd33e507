#pragma once

#include <span>

#include "src/memory/driver_calls.h"
#include "src/program/program.h"

namespace stepcast::memory {

// The same program, whose host makes these calls of the driver in each step, each before the
// allocation that it is for. cudaFree waits for the device (CUDA runtime API: "may perform implicit
// synchronization"; pytorch/pytorch pull 19222), so where segments are given back the host first
// waits for all that it has issued so far, on any stream: its lead is gone, and whatever it issues
// next, a unit's all-gather say, has nothing to hide behind.
//
// `calls` is in ascending order of instructions. The result is without the data flow. With `waits`
// false the host makes the calls and waits for nothing, for programs that would else wait for each
// other.
program::Program StoppedProgram(const program::Program& program,
                                std::span<const DriverCallsAt> calls, bool waits = true);

}  // namespace stepcast::memory
