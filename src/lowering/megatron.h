#pragma once

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// Megatron-LM's own data parallelism (NVIDIA/Megatron-LM@d98e8a64ddf3 megatron/core/distributed/
// {distributed_data_parallel.py,param_and_grad_buffer.py}, megatron/core/optimizer/
// distrib_optimizer.py): stage 0 is its DistributedDataParallel, stage 1 the distributed optimizer.
//
//  * Main gradients live in one contiguous buffer in gradient_dtype, laid out in reverse
//    registration order, cut into buckets, and set to zero at the start of every step. The weight
//    gradient's matrix product adds to them in place (gradient accumulation fusion); of vectors and
//    of what is only looked up autograd makes a gradient that a kernel then adds.
//  * Overlap: in the last micro-batch a full bucket is scaled by 1 / ranks on the compute stream
//    and reduced at once. Without it there is one bucket, reduced after the backward while nothing
//    is computed.
//  * In a pipeline (core/pipeline_parallel/schedules.py, megatron/training/training.py) every
//    virtual stage has buckets of its own, and all but the first one of the first stage have one.
//    With align_grad_reduce stage r reduces a virtual stage's gradients r passes of backward after
//    the last of its micro-batches: when the last stage has its own; the rest at the end. With
//    align_param_gather the parameters of the first two virtual stages are gathered before the
//    first forward, and those of one behind them r passes before the one ahead of it begins here.
//    With overlap_param_gather_with_optimizer_step the first virtual stage's are gathered between
//    its update and the others'.
//  * Distributed optimizer: buckets are reduce-scattered; a rank updates its part of every bucket,
//    and the parameters are gathered bucket by bucket. With overlap_param_gather a bucket is
//    gathered in the next forward: waiting for one sends off the one after it.
//  * shard_group_size < data: several instances of the distributed optimizer, whose parts are
//    all-reduced across instances (num_distributed_optimizer_instances).
//  * optimizer_cpu_offload (megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py, all of the
//    optimizer): a rank's part of the gradients is copied to the host in FP32, its CPUs update the
//    values, and these are copied back, before they are gathered. Copies are on the compute stream
//    and the CPUs have one optimizer; with overlap_cpu_optimizer_d2h_h2d on streams of their own,
//    and each tensor has an optimizer that waits for its own copy.
program::Program LowerMegatron(const scenario::Scenario& scenario, const LowerOptions& options);

}  // namespace stepcast::lowering
