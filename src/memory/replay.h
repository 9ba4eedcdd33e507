#pragma once

#include <memory>

#include "src/memory/account.h"
#include "src/memory/deferred_frees.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

// The single memory accounting: a program's allocations and frees replayed against the times of a
// run.
//
// Allocations and frees take effect when the host issues them. A deferred free (deferred_frees.h)
// takes effect at the first allocation after the operations that it waits for have ended on the
// device. If the device has no room for a segment, the allocator waits for all deferred frees,
// returns unused segments and then takes the segment.
//
// A replay needs from a timeline the number of steps (step_ends). With deferred frees
// (DeferredFrees::any), it also needs the times of memory changes and the end times of the
// operations that the frees wait for, for every step or for the repeated one. An account always
// needs the times of memory changes.
namespace stepcast::memory {

// Replays runs one after the other, reusing memory and cached results: without deferred frees, a
// program's figures depend only on its requests, not on times. Not thread-safe.
class Replayer {
 public:
  Replayer();
  ~Replayer();
  Replayer(Replayer&&) noexcept;
  Replayer& operator=(Replayer&&) noexcept;

  // Skips steps and micro-batches that provably repeat: those that find the allocator in a state
  // that an equal one left unchanged. `deferred`: of `program`.
  Usage Figures(const program::Program& program, const program::Timeline& timeline,
                const DeferredFrees& deferred, const Device& device, const Steps& steps);

 private:
  struct Workspace;
  std::unique_ptr<Workspace> workspace_;
};

// The same figures, with a list of all changes.
Account Record(const program::Program& program, const program::Timeline& timeline,
               const Device& device, const Steps& steps = {});

}  // namespace stepcast::memory
