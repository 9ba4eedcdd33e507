#pragma once

#include <vector>

#include "src/program/program.h"

namespace stepcast::program {

// What a kWaitEvent or kHostWaitEvent of the step waits for: the latest record of its event in host
// order, which differs from step to step only in the first one.
struct WaitTarget {
  Index record = kNone;      // a kRecordEvent in the step; kNone: the step does not record it
  bool step_before = false;  // `record` comes later in host order: that of the step before counts
  // In the prologue: what counts in the first step if `step_before`, and always if `record` is
  // kNone. kNone: nothing was recorded, and the wait is satisfied at once.
  Index prologue_record = kNone;

  friend bool operator==(const WaitTarget&, const WaitTarget&) = default;
};

// One entry for each instruction; those of instructions that do not wait say nothing.
struct WaitTargets {
  std::vector<WaitTarget> prologue;  // only `prologue_record` has a meaning
  std::vector<WaitTarget> step;
};

// Fills `targets`, reusing its memory. The program's indices must be right.
void FindWaitTargets(const Program& program, WaitTargets& targets);

}  // namespace stepcast::program
