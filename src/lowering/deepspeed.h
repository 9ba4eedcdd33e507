#pragma once

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// DeepSpeed at stages 0 to 2 (deepspeed/runtime/zero/stage_1_and_2.py @ 02aa38c3; stage 0:
// runtime/engine.py and fp16/fused_optimizer.py).
//  * Parameters lie in one flat tensor in registration order, padded to 2 x ranks elements; each
//    rank owns an equal part of it, cut where it falls: FP32 copy and moments of that part.
//  * Gradients are copied into a bucket of reduce_bucket_size elements as they become ready, two
//    in turn with overlap; one that would not fit sends the bucket off first. A gradient larger
//    than that is sent off alone, from where it lies.
//  * A bucket is divided, put together anew by owners, and all-reduced; each rank then copies what
//    it owns. Not a reduce-scatter: twice its volume.
//  * Stage 2 reduces in every micro-batch and keeps what it owns; stage 1 after the last one: from
//    hooks with overlap, else after backward, in registration order.
//  * The step updates the own part; then one all-gather of the flat tensor, which nothing overlaps.
//  * Stage 0 reduces after backward, 5e8 elements at a time, in registration order, and updates
//    everything on every rank.
//  * In a pipeline (deepspeed/runtime/pipe/engine.py, module.py) the gradients of embeddings that
//    stages share are added up after the last backward; then all are reduced, and the norm is summed
//    over the ranks that have other parts of the model, too.
// Weights with and without decay are taken to be one parameter group.
program::Program LowerDeepSpeed(const scenario::Scenario& scenario, const LowerOptions& options);

}  // namespace stepcast::lowering
