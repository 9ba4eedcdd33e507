#pragma once

#include <memory>

#include "src/memory/account.h"
#include "src/memory/deferred_frees.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

// The one account of memory: a program's allocations and frees against the times of a run.
//
// Allocations and frees take effect when the host issues them. A deferred free (deferred_frees.h)
// takes effect at the first allocation after the operations that it waits for have ended on the
// device. Where the device has no room for a segment the allocator waits for all deferred frees,
// gives unused segments back and takes the segment then.
//
// What a replay needs of a timeline: how many steps were run (step_ends). Where frees are deferred
// (DeferredFrees::any) also, for every step, or the one that all repeat, the times of the memory
// changes and the ends of the operations that deferred frees wait for. An account needs the times
// of memory changes in any case.
namespace stepcast::memory {

// Replays runs one after the other in the same memory, and knows again what it replayed before: the
// figures of a program without deferred frees follow from its requests, whatever the times. Not to
// be used by two threads at once.
class Replayer {
 public:
  Replayer();
  ~Replayer();
  Replayer(Replayer&&) noexcept;
  Replayer& operator=(Replayer&&) noexcept;

  // Leaves out what provably repeats: steps and micro-batches that find the allocator in the state
  // in which equal ones left it unchanged. `deferred`: the program's.
  Usage Figures(const program::Program& program, const program::Timeline& timeline,
                const DeferredFrees& deferred, const Device& device, const Steps& steps);

 private:
  struct Workspace;
  std::unique_ptr<Workspace> workspace_;
};

// The same figures with every change behind them.
Account Record(const program::Program& program, const program::Timeline& timeline,
               const Device& device, const Steps& steps = {});

}  // namespace stepcast::memory
