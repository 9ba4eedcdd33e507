#pragma once

#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_timing.h"

// Bounds of a pipeline, from what its chunks do by themselves and the order in which stages run
// them.
namespace stepcast::planner {

// One micro-batch through one chunk.
struct ChunkWork {
  parallel::PassDurations passes;  // picoseconds: its kernels, each alone, one after the other
  Bytes saved;                     // from forward to backward
  // The most that is alive at once while its backward runs: what layers saved up to the one whose
  // backward runs, what has been computed again, temporaries.
  Bytes backward;
  friend bool operator==(const ChunkWork&, const ChunkWork&) = default;
};

// Lower bound of the step time. The stage of the first chunk begins a step when it has ended the
// one before; the others get the step's micro-batches from there, and its last backward waits for
// theirs. Messages, collectives, hosts and contention only add to it.
Time PipelineStepTime(const parallel::PipelineSchedule& schedule,
                      std::span<const ChunkWork> chunks);

// By stage, lower bounds of the activations that are alive at once: a pass begins when those before
// it in the stage's order have been issued, and what micro-batches on their way have saved is
// there.
std::vector<Bytes> ActivationsInFlight(const parallel::PipelineSchedule& schedule,
                                       std::span<const ChunkWork> chunks);

}  // namespace stepcast::planner
