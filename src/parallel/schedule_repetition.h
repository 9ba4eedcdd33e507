#pragma once

#include <vector>

#include "src/parallel/pipeline_schedule.h"

// Where a schedule repeats: between the micro-batches that fill a pipeline and those that drain it
// every stage runs the same passes again and again, each time for later micro-batches.
namespace stepcast::parallel {

// Micro-batches [first, end) of a stage.
struct MicroBatchRange {
  int first = 0, end = 0;

  int size() const { return end - first; }
  friend bool operator==(const MicroBatchRange&, const MicroBatchRange&) = default;
};

// [stage] the micro-batches whose last pass lies in the stretch of the stage's passes in which each
// is the pass one period of `period` micro-batches before it, for a micro-batch later by so many.
// The stretch has no pass of the schedule's first and last micro-batch, which frameworks treat in
// ways of their own. The ranges are whole numbers of periods, and end as late as can be; a stage
// without such a stretch has an empty one.
std::vector<MicroBatchRange> RepeatedMicroBatches(const PipelineSchedule& schedule, int period);

}  // namespace stepcast::parallel
