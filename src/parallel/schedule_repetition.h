#pragma once

#include <vector>

#include "src/parallel/pipeline_schedule.h"

// The periodic part of a schedule: between the micro-batches that fill a pipeline and those that
// drain it, every stage repeats the same passes, each time for later micro-batches.
namespace stepcast::parallel {

// Micro-batches [first, end) of a stage.
struct MicroBatchRange {
  int first = 0, end = 0;

  int size() const { return end - first; }
  friend bool operator==(const MicroBatchRange&, const MicroBatchRange&) = default;
};

// [stage]: the micro-batches whose last pass is in the periodic part of the stage's passes. In that
// part, each pass equals the pass one period earlier, but for a micro-batch `period` later. The
// part excludes passes of the schedule's first and last micro-batch, which frameworks treat
// specially. The ranges consist of whole periods and end as late as possible; a stage without
// repetition has an empty range.
std::vector<MicroBatchRange> RepeatedMicroBatches(const PipelineSchedule& schedule, int period);

}  // namespace stepcast::parallel
