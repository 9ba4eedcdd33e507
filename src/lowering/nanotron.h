#pragma once

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// Hugging Face's nanotron (huggingface/nanotron: src/nanotron/trainer.py, helpers.py,
// parallel/pipeline_parallel/engine.py, optim/gradient_accumulator.py, optim/zero.py,
// distributed.py, read in versions of 2024 and 2025) with accumulate_grad_in_fp32, which is the
// only way that 16-bit parameters have FP32 optimizer states.
//
//  * FP32GradientAccumulator keeps FP32 gradients of all parameters. After each backward they are
//    added to tensor by tensor, in registration order, and the 16-bit ones go.
//  * zero_stage 0: the model is in PyTorch's DistributedDataParallel. In the last micro-batch its
//    hook takes each bucket that is full, in order: the bucket's gradients are added to the FP32
//    ones, which are all-reduced, all tensors of the bucket in one group; backward goes on. At its
//    end DDP copies the buckets back, and the last all-reduce is waited for.
//  * zero_stage 1: no DDP. After the last backward all FP32 gradients are all-reduced at once.
//    ZeroDistributedOptimizer cuts every tensor into slices, one for each rank (where they do not
//    come out even, some are one element shorter; here the last ranks have less). Updated slices
//    are put behind one another and gathered; PyTorch's all_gather of lists has memory for the
//    list and for what comes in; each rank's part is copied to the list, then tensor by tensor to
//    the parameters.
//  * The optimizer updates FP32 values, and each tensor is copied to its 16-bit parameter. Then the
//    FP32 gradients are set to zero. The loss, one number, which is averaged over all ranks beside
//    that, is left out.
//  * Gradients of what is tied are added up when those of the replicas are, an embedding's over the
//    stages that have it, a norm's over the ranks that apply it to parts of the tokens
//    (sync_tied_weights_gradients). A column-parallel product of its own part while the others are
//    gathered (tp_linear_async_communication) is not modelled: the gather is waited for.
program::Program LowerNanotron(const scenario::Scenario& scenario, const LowerOptions& options);

}  // namespace stepcast::lowering
