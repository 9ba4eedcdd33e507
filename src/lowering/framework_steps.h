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

// DeepSpeed's stage 3 in its steady state (deepspeed/runtime/zero/{stage3.py @ 007cca6a,
// partition_parameters.py @ 0031ae39, parameter_offload.py @ 042b847a} and
// deepspeed/runtime/comm/coalesced_collectives.py @ 17b3b557).
//  * Every parameter is cut into as many equal parts as there are ranks; small ones stay gathered
//    from step to step.
//  * Hooks around every module gather its parameters in one collective, wait, ask for the next ones
//    in the learned order, and free (ParameterCoordinator). A collective of several parameters is
//    copied together before and apart behind it. The host stays at most three waits ahead.
//    What it frees while the device still reads it is bounded by max_live_parameters, in place of
//    an allocator that makes the host wait when memory is short.
//  * Gradients go into one bucket on a stream of their own; a full one is put together by ranks,
//    divided and reduce-scattered in every micro-batch, and each rank adds its parts to its flat
//    gradients. The host stays at most three reductions ahead, and waits for the last one.
//  * The step frees what stayed gathered, updates the own parts sub-group by sub-group, and gathers
//    the small parameters again, one collective each; then the host waits for the device.
program::Program LowerDeepSpeedStage3(const scenario::Scenario& scenario,
                                      const LowerOptions& options);

// PyTorch's FullyShardedDataParallel (FSDP1: torch/distributed/fsdp/_runtime_utils.py,
// _flat_param.py, _init_utils.py, read at pytorch/pytorch@3ade90a6aaa9 and @01caf79e047f, and in
// the pull requests named below), wrapped around every block and then around the model; embedding,
// final norm and head are the root unit. A unit's parameters are one flat parameter
// (layouts.h).
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

// PyTorch's fully_shard (FSDP2: torch/distributed/fsdp/_fully_shard/, read at PyTorch 2.6.0 and
// 2.14.1), applied to every block and then to the model; embedding, final norm and head are the
// root unit. Parameters are sharded one by one on dimension 0, padded to equal rows.
//
// Streams: compute, all-gather copy-in, all-gather, reduce-scatter and, with hybrid sharding,
// all-reduce. All-gathers and reduce-scatters share one communicator, so they run in issue order.
//
//  * Unshard of a unit: copy-in (copy-in stream) casts the local shards into this rank's slice of
//    the gather buffer; all-gather; copy-out (compute stream) splits it into full parameters.
//    Forward: the all-gather streams wait for the copy-out of the unit before last, so that the
//    host, running ahead, overlaps one unit (implicit prefetch); three units' worth of memory.
//    prefetch 2 and up: explicit, that many units are unsharded ahead. prefetch 0: the all-gather
//    waits for the compute before it. Backward: `prefetch` units ahead, issued before the unit's
//    gradient kernels.
//  * After a unit's backward: its parameters are freed; gradients are copied into the
//    reduce-scatter buffer in reduce_dtype (compute stream, which first waits for the previous
//    reduce-scatter: one buffer in flight); reduce-scatter; with hybrid sharding an all-reduce of
//    the shard over the replicas; cast to the parameters' type, and from the second micro-batch on
//    added to the sharded gradient.
//  * reshard_after_forward: true frees a unit after its forward (never the root), false keeps it,
//    k keeps a shard over groups of k ranks, from which backward gathers.
//  * accumulate_unsharded (set_requires_gradient_sync(False)): all but the last micro-batch keep
//    full gradients, in reduce_dtype where that differs from the compute type, and no reduction.
//  * cpu_offload (CPUOffloadPolicy, pinned memory): before copy-in the shard is copied to the
//  device
//    on the copy-in stream (_fsdp_param.py, all_gather_inputs); the reduced shard is copied to the
//    host on the stream that reduced it, and freed (foreach_reduce). From the second micro-batch on
//    the host waits for that copy, and its CPUs add. At the end of backward the host waits for the
//    last copy; then its CPUs update.
//  * In a pipeline (torch/distributed/pipelining/stage.py) each chunk is a module with a root of its
//    own. Parameters stay gathered behind backwards (set_reshard_after_backward), and no backward
//    reduces (set_requires_gradient_sync): full gradients are kept as above, and behind a chunk's
//    last one its units' gradients are reduced one after the other, the root's first, for which the
//    compute stream waits (_post_backward). Where the schedule says when chunks are gathered
//    (parallel/parameter_passes.h), all units of a chunk are copied in on the compute stream and
//    gathered, and copied out before the chunk's next pass.
//  * The end of backward waits for the last reduction. Sharded gradients are freed after the
//    update (zero_grad(set_to_none=True)).
program::Program LowerFsdp2(const scenario::Scenario& scenario, const LowerOptions& options);

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

// Textbook data parallelism and ZeRO (Rajbhandari et al. 2020, arXiv 1910.02054), on kernels and
// collectives alone: no launch cost, no copies. The host is in step with the device: it issues a
// layer when the layer before it has been computed, so that memory is held from the moment the
// device needs it. One communicator on its own stream; collectives run in the order issued.
//
//  stage 0     backward; gradients are all-reduced per bucket as they become ready (or after the
//              backward, overlap: false); one update.
//  stage 1, 2  gradients are reduce-scattered per bucket; every rank updates its shard; updated
//              parameters are all-gathered per bucket, in the order of the next forward, while
//              later buckets update and while the next forward runs: a layer waits for its own
//              buckets alone. overlap: false puts reduction, update and all-gather one after the
//              other. Stage 1 keeps full gradients and communicates once a step; stage 2 reduces
//              every micro-batch and keeps the shard (accumulate_unsharded: as stage 1).
//  stage 3     parameters are all-gathered in the compute type before a unit's forward and
//              backward, at most `prefetch` units ahead, and freed after it; gradients as in stage
//              2, per unit unless bucket_size is given. A unit is a layer; layers that share a
//              tied tensor are one.
//
// With shard_group_size < data the above happens inside a shard group, and once a step the reduced
// shards are all-reduced over the replicas.
program::Program LowerReference(const scenario::Scenario& scenario, const LowerOptions& options);

}  // namespace stepcast::lowering
