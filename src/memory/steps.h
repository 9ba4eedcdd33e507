#pragma once

#include <cstdint>
#include <optional>

#include "src/base/time.h"
#include "src/program/longer_step.h"

namespace stepcast::memory {

// Which steps of a run a replay (replay.h) is about.
struct Steps {
  std::uint32_t described = 0;  // Usage::step_calls are of this one
  // Every step is as this one, those before it too: of the others the timeline has their ends, and
  // nothing else of it is looked at.
  std::optional<std::uint32_t> repeated{};
  // Steps are longer than the program's; a buffer of the program stands for those of the
  // micro-batches that it does not have. Where frees are deferred this takes `repeated`.
  std::optional<program::LongerStep> longer{};
  Time period{};  // of `longer`: how long one takes in the run
};

}  // namespace stepcast::memory
