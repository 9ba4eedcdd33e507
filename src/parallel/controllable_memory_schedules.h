#pragma once

#include "src/parallel/pipeline_schedule.h"

// Pipelines with controllable memory (arXiv 2405.15362; sail-sg/zero-bubble-pipeline-parallelism,
// scheduler/zbv_greedy.py): two chunks a stage, s and 2P-1-s, and backward in two parts. A building
// block says when a micro-batch's four passes (forward of the first chunk, of the second, gradients
// of inputs of the second, of the first) run at each stage, in slots of equal passes; it is
// repeated every six slots, two of which are left to the gradients of weights. What a micro-batch
// keeps alive follows from how long its passes are apart in the block. Passes before the first
// micro-batch has come back, and behind the last forward, then move to earlier slots where that
// needs no more memory.
namespace stepcast::parallel {

// About half of 1F1B's activations: P/2 micro-batches of a stage and a constant.
PipelineSchedule VHalf(int stages, int micro_batches);

// About a third, for more idle time: passes follow each other as closely as dependencies let them.
PipelineSchedule VMin(int stages, int micro_batches);

}  // namespace stepcast::parallel
