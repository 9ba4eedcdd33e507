#pragma once

#include <cstdint>
#include <optional>

#include "src/base/time.h"
#include "src/program/longer_step.h"

namespace stepcast::memory {

// Steps says what a replay (replay.h) takes for the steps of a run.
struct Steps {
  std::uint32_t described = 0;  // the step whose calls of the driver Usage::step_calls lists
  // When this is set, every step, also each before it, is taken to be equal to this one. The replay
  // then reads the records of this step alone, and of the others only how many there are.
  std::optional<std::uint32_t> repeated{};
  // When this is set, steps have more micro-batches than the program has. A replay of a program
  // with deferred frees then needs `repeated` as well.
  std::optional<program::LongerStep> longer{};
  Time period{};  // how long one period of `longer` takes in the run
};

}  // namespace stepcast::memory
