#pragma once

#include <memory>

#include "src/memory/account.h"
#include "src/memory/deferred_frees.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

// Computes memory by replaying a program's allocations and frees at the times of a run. All memory
// forecasts use this file.
//
// Allocations and frees take effect when the host issues them. A deferred free (deferred_frees.h)
// takes effect at the first allocation after the operations that it waits for have ended on the
// device. If a segment does not fit on the device, the allocator waits for all deferred frees,
// frees unused segments and then allocates the segment.
//
// A replay reads the number of steps from a timeline (step_ends). With deferred frees
// (DeferredFrees::any), a replay also reads the times of memory changes, and the end times of
// operations that frees wait for. These times are from every step, or from the repeated step.
// Record always reads the times of memory changes.
namespace stepcast::memory {

// Replays runs one after another, with reused memory and cached results. Without deferred frees,
// the result does not depend on times. Not thread-safe.
class Replayer {
 public:
  Replayer();
  ~Replayer();
  Replayer(Replayer&&) noexcept;
  Replayer& operator=(Replayer&&) noexcept;

  // Returns the memory use of a run. If a step ends with the same state as the previous step, all
  // later steps are equal and are skipped. `deferred` are the deferred frees of `program`.
  Usage Figures(const program::Program& program, const program::Timeline& timeline,
                const DeferredFrees& deferred, const Device& device, const Steps& steps);

 private:
  struct Workspace;
  std::unique_ptr<Workspace> workspace_;
};

// Returns the memory use as Replayer::Figures does, with a list of all changes.
Account Record(const program::Program& program, const program::Timeline& timeline,
               const Device& device, const Steps& steps = {});

}  // namespace stepcast::memory
