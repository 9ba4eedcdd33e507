#pragma once

#include <memory>

#include "src/memory/account.h"
#include "src/memory/deferred_frees.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

// The only place where memory is computed: a program's allocations and frees are replayed at the
// times of a run.
//
// Allocations and frees take effect when the host issues them. A deferred free (deferred_frees.h)
// takes effect at the first allocation after the operations for which it waits have ended on the
// device. If a segment does not fit on the device, the allocator waits for all deferred frees,
// returns unused segments and then takes the segment.
//
// From a timeline, a replay needs the number of steps (step_ends). With deferred frees
// (DeferredFrees::any), it also needs times, for every step or for the repeated one. These are the
// times of memory changes, and the end times of the operations for which the frees wait. An account
// always needs the times of memory changes.
namespace stepcast::memory {

// Replays runs one after another. Reuses memory and cached results. Without deferred frees, a
// program's figures depend only on its requests, not on times. Not thread-safe.
class Replayer {
 public:
  Replayer();
  ~Replayer();
  Replayer(Replayer&&) noexcept;
  Replayer& operator=(Replayer&&) noexcept;

  // Returns the figures of a run. Skips steps and micro-batches that provably repeat. A step
  // repeats if it starts in a state in which an earlier step started, and if the earlier step left
  // this state unchanged. The same holds for micro-batches. `deferred` are the deferred frees of
  // `program`.
  Usage Figures(const program::Program& program, const program::Timeline& timeline,
                const DeferredFrees& deferred, const Device& device, const Steps& steps);

 private:
  struct Workspace;
  std::unique_ptr<Workspace> workspace_;
};

// Returns the figures that Replayer::Figures returns, with a list of all changes.
Account Record(const program::Program& program, const program::Timeline& timeline,
               const Device& device, const Steps& steps = {});

}  // namespace stepcast::memory
