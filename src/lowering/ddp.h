#pragma once

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// PyTorch's DistributedDataParallel once it is warm: buckets rebuilt from the observed ready order
// (torch/csrc/distributed/c10d/reducer.cpp, torch/nn/parallel/distributed.py, read at PyTorch 2.6.0
// and 2.14.1). The first iteration, one bucket for everything, is not part of the step.
//
//  * In the last micro-batch a hook per parameter copies its gradient into the bucket's slot,
//    scaled by 1 / ranks. A full bucket is all-reduced on the process group's own stream; buckets
//    are launched strictly in order, and one communicator runs them one after the other.
//  * Earlier micro-batches run under no_sync: gradients accumulate where they are.
//  * Parameters kept in FP32 under 16-bit precision run under autocast: every layer's matrices are
//    cast before its forward, autograd keeps the copies for backward, and each gradient is cast up.
//  * After the backward the compute stream waits for each bucket in turn and copies its slots back
//    into the gradients, unless gradient_as_bucket_view makes the gradients views of the slots. The
//    update starts after the last one.
//  * Gradients are None at the start of a step (zero_grad(set_to_none=True)), so each backward
//    writes them to new memory and the copy into the slot takes place with views too.
//  * find_unused_parameters: buckets are never rebuilt; limits apply in definition order and the
//    list is reversed, so the small first bucket is reduced last; an int32 per parameter is
//    all-reduced beside.
program::Program LowerDdp(const scenario::Scenario& scenario, const LowerOptions& options);

}  // namespace stepcast::lowering
