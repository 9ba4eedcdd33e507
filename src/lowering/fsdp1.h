#pragma once

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// PyTorch's FullyShardedDataParallel (FSDP1: torch/distributed/fsdp/_runtime_utils.py,
// _flat_param.py, _init_utils.py, read at pytorch/pytorch@3ade90a6aaa9 and @01caf79e047f, and in
// the pull requests named below), wrapped around every block and then around the model; embedding,
// final norm and head are the root unit. A unit's parameters are one flat parameter
// (flat_layout.h).
//
// ShardingStrategy: zero_stage 3 is FULL_SHARD, 2 is SHARD_GRAD_OP; with shard_group_size < data
// they are HYBRID_SHARD and _HYBRID_SHARD_ZERO2.
//
// Streams: compute, pre-unshard, unshard, post-backward and, with hybrid sharding since torch 2.1
// (pull request 106080), all-reduce. All-gathers and reduce-scatters share one communicator, so
// they run in issue order. Before torch 2.8 (148590) every collective ran on its process group's
// own stream, and the allocator kept its buffers until that had been computed.
//
//  * Unshard of a unit: where parameters are kept in another type than kernels read (mixed
//    precision), the shard is cast (pre-unshard stream); the rate limiter (rate_limiter.h) makes
//    the host wait; the flat parameter is allocated and gathered (unshard stream). The compute
//    stream waits for it. Units are views of the flat parameter: nothing is copied.
//  * Beside torch.autocast (data_parallel.mixed_precision) nothing is cast before it is gathered,
//    gradients are joined and reduced in the parameters' type, and layers have copies (autocast.h).
//  * Frozen parameters of a unit are a second flat parameter, gathered and freed with the first:
//    PEFT's fsdp_auto_wrap_policy (peft/utils/other.py), with one unit for all adapters of a block
//    in the place of one for each matrix.
//  * Forward: a unit is unshared when the host gets there, which is ahead of the device;
//    forward_prefetch asks for the next one as well. After it FULL_SHARD frees it, but for the
//    root. The compute stream is recorded on the freed memory: it can be reused when the device has
//    come that far, which is why the limiter exists.
//  * Backward: the root's hook comes first. backward_prefetch: pre asks for the next unit before
//    the present one's gradients are computed, post after that, none when it is needed.
//  * After a unit's backward autograd joins its tensors' gradients into that of the flat parameter,
//    in the compute type; parameters are freed. On the post-backward stream: cast to reduce_dtype,
//    padding (unless use_orig_params has aligned everything, since torch 2.1: 97667, 99054),
//    division by about the root of the ranks, reduce-scatter, with hybrid sharding all-reduce of
//    the shard, the rest of the division, cast to the parameters' type, and from the second
//    micro-batch on addition to the gradient shard. The full gradient is recorded on that stream
//    and released.
//  * accumulate_unsharded (no_sync): all but the last micro-batch keep the full flat gradients, in
//    the compute type, and stage 2 keeps its parameters, too.
//  * The end of backward waits for the last reduction. Gradient shards are freed after the update
//    (zero_grad(set_to_none=True)).
program::Program LowerFsdp1(const scenario::Scenario& scenario, const LowerOptions& options);

// The factor by which gradients are divided before they are summed over `ranks`; the rest of the
// division comes after it (torch/distributed/algorithms/_comm_hooks/default_hooks.py).
std::int64_t GradientPredivideFactor(std::int64_t ranks);

}  // namespace stepcast::lowering
