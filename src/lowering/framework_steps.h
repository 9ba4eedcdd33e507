#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// The base class of the frameworks' sharding strategies. Does not own the step, which must outlive
// the strategy.
class FrameworkStrategy : public ShardingStrategy {
 public:
  // Appends the ranges that store the layer's parameters, one tensor after another.
  void AppendParameterReads(int layer, std::vector<program::BufferUse>& uses) override {
    for (const int tensor : step_.model().layers[layer].tensors) {
      uses.push_back(Reads(Parameter(tensor)));
    }
  }

 protected:
  explicit FrameworkStrategy(TrainingStep& step)
      : step_(step), builder_(step.builder()), plan_(step.plan()), operations_(builder_) {}

  // Returns the range from which kernels read a complete parameter. Strategies that gather
  // parameters do not override this function, because they declare the reads themselves.
  virtual Range Parameter(int /*tensor*/) const { return {}; }

  int Tensors() const { return static_cast<int>(step_.model().tensors.size()); }
  std::int64_t Elements(int tensor) const { return step_.model().tensors[tensor].elements; }
  // Returns all tensors of the model, in registration order.
  std::vector<int> AllTensors() const {
    std::vector<int> all(step_.model().tensors.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Plan& plan_;
  Operations operations_;
};

template <typename Strategy>
program::Program LowerWith(const scenario::Scenario& scenario, const LowerOptions& options) {
  TrainingStep step(scenario, options);
  Strategy strategy(step);
  return step.Write(strategy);
}

// PyTorch's DistributedDataParallel after warm-up, with buckets rebuilt from the observed ready
// order (torch/csrc/distributed/c10d/reducer.cpp, torch/nn/parallel/distributed.py, read at PyTorch
// 2.6.0 and 2.14.1). The first iteration, with one bucket for all gradients, is not modeled.
//
//  * In the last micro-batch, a hook per parameter copies its gradient to the bucket's slot, scaled
//    by 1 / ranks. A full bucket is all-reduced on the stream of the process group. Buckets are
//    launched strictly in order, and one communicator runs them one after another.
//  * Earlier micro-batches run under no_sync: gradients accumulate without communication. Without
//    no_sync, every backward reduces. A bucket then contains the latest gradients plus the mean of
//    earlier micro-batches, which is equal on all ranks. The mean over ranks is therefore the mean
//    of earlier micro-batches plus the mean of the latest gradients.
//  * FP32 parameters with 16-bit precision run under autocast: every layer's matrices are cast
//    before its forward, autograd keeps the copies for backward, and each gradient is cast to FP32.
//  * After the backward, the compute stream waits for each bucket in turn and copies its slots back
//    to the gradients, unless gradient_as_bucket_view makes the gradients views of the slots. The
//    update starts after the last bucket.
//  * Gradients are None at the start of a step (zero_grad(set_to_none=True)). Each backward
//    therefore writes gradients to new memory and copies them to the slot, even with views.
//  * find_unused_parameters: buckets are never rebuilt. Bucket limits apply in definition order and
//    the list of buckets is reversed, so the small first bucket is reduced last. One int32 per
//    parameter is also all-reduced.
program::Program LowerDdp(const scenario::Scenario& scenario, const LowerOptions& options);

// DeepSpeed at stages 0 to 2 (deepspeed/runtime/zero/stage_1_and_2.py @ 02aa38c3; stage 0:
// runtime/engine.py and fp16/fused_optimizer.py).
//  * Parameters are in one flat tensor in registration order, padded to a multiple of 2 x ranks
//    elements. Each rank owns an equal part, which may split tensors, with its FP32 copy and
//    moments.
//  * Gradients are copied to a bucket of reduce_bucket_size elements as they become ready; with
//    overlap, two buckets alternate. If a gradient does not fit, the bucket is sent first. A
//    gradient larger than the bucket is sent separately, without a copy.
//  * A bucket is divided, reordered by owner and all-reduced. Each rank then copies the elements
//    that it owns. A rank sends twice as many bytes as in a reduce-scatter.
//  * Stage 2 reduces in every micro-batch and keeps its own elements. Stage 1 reduces after the
//    last micro-batch: from hooks with overlap, otherwise after backward, in registration order.
//  * The step updates the rank's own part, then gathers the flat tensor in one all-gather without
//    overlap.
//  * Stage 0 reduces after backward, 5e8 elements at a time in registration order, and updates
//    all parameters on every rank.
//  * In a pipeline (deepspeed/runtime/pipe/engine.py, module.py), gradients of embeddings that
//    stages share are summed after the last backward. After this sum, all gradients are reduced,
//    and the norm is also summed over the ranks that have other parts of the model.
//
// Weights with and without decay are treated as one parameter group.
program::Program LowerDeepSpeed(const scenario::Scenario& scenario, const LowerOptions& options);

// DeepSpeed's stage 3 in its steady state (deepspeed/runtime/zero/{stage3.py @ 007cca6a,
// partition_parameters.py @ 0031ae39, parameter_offload.py @ 042b847a} and
// deepspeed/runtime/comm/coalesced_collectives.py @ 17b3b557).
//  * Every parameter is divided into one equal part per rank. Small parameters remain gathered
//    between steps.
//  * Hooks around every module gather its parameters in one collective, wait, prefetch the next
//    parameters in the recorded order, and free them (ParameterCoordinator). A collective of
//    several parameters is packed before and unpacked after. The host is at most three waits ahead.
//    Freed memory that the device still reads is limited to max_live_parameters. (This limit
//    replaces an allocator that makes the host wait when memory is short.)
//  * Gradients are copied to one bucket on a separate stream. In every micro-batch, a full bucket
//    is packed by rank, divided and reduce-scattered, and each rank adds its parts to its flat
//    gradients. The host is at most three reductions ahead and waits for the last reduction.
//  * The step frees the gathered parameters, updates the rank's own parts sub-group by sub-group,
//    and gathers the small parameters again, one collective per parameter. Then the host waits for
//    the device.
program::Program LowerDeepSpeedStage3(const scenario::Scenario& scenario,
                                      const LowerOptions& options);

// PyTorch's FullyShardedDataParallel (FSDP1: torch/distributed/fsdp/_runtime_utils.py,
// _flat_param.py, _init_utils.py, read at pytorch/pytorch@3ade90a6aaa9 and @01caf79e047f, and in
// the pull requests cited below). FSDP wraps every block and then the model. Embedding, final norm
// and output layer are the root unit. A unit's parameters are one flat parameter (layouts.h).
//
// ShardingStrategy: zero_stage 3 is FULL_SHARD, 2 is SHARD_GRAD_OP. With shard_group_size < data,
// these stages are HYBRID_SHARD and _HYBRID_SHARD_ZERO2.
//
// Streams: compute, pre-unshard, unshard, post-backward and, with hybrid sharding since torch 2.1
// (pull request 106080), all-reduce. All-gathers and reduce-scatters share one communicator, so
// they run in issue order. Before torch 2.8 (148590), every collective ran on the stream of its
// process group, and the allocator kept its buffers until this stream had finished with them.
//
//  * Unshard of a unit: with mixed precision, the shard is cast (pre-unshard stream). The rate
//    limiter (rate_limiter.h) makes the host wait. The flat parameter is allocated and gathered
//    (unshard stream), and the compute stream waits for it. Parameters are views of the flat
//    parameter, so nothing is copied.
//  * With torch.autocast (data_parallel.mixed_precision), parameters are gathered without a cast,
//    gradients are joined and reduced in the parameters' type, and layers have copies (autocast.h).
//  * Frozen parameters of a unit are a second flat parameter, gathered and freed with the first.
//    The wrapping follows PEFT's fsdp_auto_wrap_policy (peft/utils/other.py), except that one unit
//    contains all adapters of a block instead of one unit per matrix.
//  * Forward: a unit is unsharded when the host reaches it, which is ahead of the device.
//    forward_prefetch also requests the next unit. After forward, FULL_SHARD frees every unit
//    except the root. The compute stream is recorded on the freed memory, which can be reused only
//    when the device has reached this point. The limiter bounds this freed memory.
//  * Backward: the root's hook is first. backward_prefetch: `pre` requests the next unit before the
//    current unit's gradients are computed, `post` after that, `none` when the unit is needed.
//  * After a unit's backward, autograd joins its tensors' gradients into the flat parameter's
//    gradient, in the compute type, and the parameters are freed. The post-backward stream then
//    executes, in order: cast to reduce_dtype; padding (unless use_orig_params has aligned all
//    parameters, since torch 2.1: 97667, 99054); division by about the root of the ranks;
//    reduce-scatter; with hybrid sharding, all-reduce of the shard; the rest of the division; cast
//    to the parameters' type; from the second micro-batch on, addition to the gradient shard. The
//    full gradient is recorded on the post-backward stream and released.
//  * accumulate_unsharded (no_sync): all micro-batches except the last keep the full flat
//    gradients, in the compute type. Stage 2 also keeps its parameters.
//  * The end of backward waits for the last reduction. Gradient shards are freed after the update
//    (zero_grad(set_to_none=True)).
program::Program LowerFsdp1(const scenario::Scenario& scenario, const LowerOptions& options);

// Returns the factor by which gradients are divided before they are summed over `ranks` ranks. The
// sum is divided by ranks / factor (torch/distributed/algorithms/_comm_hooks/default_hooks.py).
std::int64_t GradientPredivideFactor(std::int64_t ranks);

// PyTorch's fully_shard (FSDP2: torch/distributed/fsdp/_fully_shard/, read at PyTorch 2.6.0 and
// 2.14.1), applied to every block and then to the model. Embedding, final norm and output layer are
// the root unit. Each parameter is sharded separately on dimension 0, padded to equal rows.
//
// Streams: compute, all-gather copy-in, all-gather, reduce-scatter and, with hybrid sharding,
// all-reduce. All-gathers and reduce-scatters share one communicator, so they run in issue order.
//
//  * Unshard of a unit: copy-in (copy-in stream) casts the local shards to this rank's slice of the
//    gather buffer; all-gather; copy-out (compute stream) splits the buffer into full parameters.
//    In forward, the all-gather streams wait for the copy-out of the unit before last, so a host
//    that runs ahead prefetches one unit (implicit prefetch). Implicit prefetch uses memory for
//    three units. With prefetch 2 and more (explicit prefetch), this number of units is unsharded
//    ahead. With prefetch 0, an all-gather waits for the kernels issued before the all-gather. In
//    backward, `prefetch` units ahead are issued before the unit's gradient kernels.
//  * After a unit's backward, its parameters are freed, and gradients are copied to the
//    reduce-scatter buffer in reduce_dtype. The compute stream first waits for the previous
//    reduce-scatter, so one buffer is in flight. Then: reduce-scatter; with hybrid sharding, an
//    all-reduce of the shard over the replicas; cast to the parameters' type; from the second
//    micro-batch on, addition to the sharded gradient.
//  * reshard_after_forward: `true` frees a unit after its forward (never the root), `false` keeps
//    the unit, k keeps a shard over groups of k ranks, from which backward gathers.
//  * accumulate_unsharded (set_requires_gradient_sync(False)): all micro-batches except the last
//    keep full gradients and do not reduce. The gradients are in reduce_dtype if it differs from
//    the compute type.
//  * cpu_offload (CPUOffloadPolicy, pinned memory): before copy-in, the shard is copied to the
//    device on the copy-in stream (_fsdp_param.py, all_gather_inputs). The reduced shard is copied
//    to the host on the stream that reduced it, and freed (foreach_reduce). From the second
//    micro-batch on, the host waits for this copy, and its CPUs add the shard to the gradient. At
//    the end of backward, the host waits for the last copy; then its CPUs update the parameters.
//  * In a pipeline (torch/distributed/pipelining/stage.py), each chunk is a module with its own
//    root. Parameters remain gathered after backward passes (set_reshard_after_backward), and no
//    backward pass reduces (set_requires_gradient_sync). Full gradients are kept, as with
//    accumulate_unsharded. After a chunk's last backward, its units' gradients are reduced one
//    after another, the root's first, and the compute stream waits for them (_post_backward). If
//    the schedule states when chunks are gathered (parallel/pipeline_schedule.h), all units of a
//    chunk are copied in on the compute stream and gathered. The units are copied out before the
//    chunk's next pass.
//  * The end of backward waits for the last reduction. Sharded gradients are freed after the update
//    (zero_grad(set_to_none=True)).
program::Program LowerFsdp2(const scenario::Scenario& scenario, const LowerOptions& options);

// Megatron-LM's own data parallelism (NVIDIA/Megatron-LM@d98e8a64ddf3 megatron/core/distributed/
// {distributed_data_parallel.py,param_and_grad_buffer.py}, megatron/core/optimizer/
// distrib_optimizer.py). Stage 0 is Megatron-LM's DistributedDataParallel, stage 1 the distributed
// optimizer.
//
//  * Main gradients are in one contiguous buffer in gradient_dtype, in reverse registration order,
//    divided into buckets, and zeroed at the start of every step. The matrix multiplication for a
//    weight gradient adds to the main gradient in place (gradient accumulation fusion). For vectors
//    and embedding tables, autograd makes a gradient, which a kernel then adds.
//  * Without no_sync, every micro-batch reduces. Stage 0 reduces sums in place. Stage 1 stores its
//    reduced part separately and clears the buckets, like Apex's DistributedFusedAdam
//    (contrib/optimizers/distributed_fused_adam.py).
//  * Overlap: in the last micro-batch, a full bucket is scaled by 1 / ranks on the compute stream
//    and reduced at once. Without overlap, there is one bucket, which is reduced after the backward
//    while nothing is computed.
//  * In a pipeline (core/pipeline_parallel/schedules.py, megatron/training/training.py), every
//    virtual stage has its own buckets; all virtual stages except the first of the first stage have
//    one bucket. With align_grad_reduce, stage r reduces a virtual stage's gradients r backward
//    passes after its last micro-batch, at the same time as the last stage. Remaining gradients are
//    reduced at the end. With align_param_gather, the parameters of the first two virtual stages
//    are gathered before the first forward. The parameters of each later virtual stage are gathered
//    r passes before the preceding virtual stage begins on this rank. With
//    overlap_param_gather_with_optimizer_step, the parameters of the first virtual stage are
//    gathered between its update and the other updates.
//  * Distributed optimizer: buckets are reduce-scattered, a rank updates its part of every bucket,
//    and the parameters are gathered bucket by bucket. With overlap_param_gather, a bucket is
//    gathered in the next forward: waiting for one bucket launches the next bucket.
//  * shard_group_size < data: several instances of the distributed optimizer, whose parts are
//    all-reduced across instances (num_distributed_optimizer_instances).
//  * optimizer_cpu_offload (megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py, for the
//    complete optimizer): a rank's part of the gradients is copied to the host in FP32, its CPUs
//    update the values, and the values are copied back before they are gathered. Copies are on the
//    compute stream, and the CPUs have one optimizer. With overlap_cpu_optimizer_d2h_h2d, copies
//    have separate streams, and each tensor has an optimizer that waits for its own copy.
program::Program LowerMegatron(const scenario::Scenario& scenario, const LowerOptions& options);

// Hugging Face's nanotron (huggingface/nanotron: src/nanotron/trainer.py, helpers.py,
// parallel/pipeline_parallel/engine.py, optim/gradient_accumulator.py, optim/zero.py,
// distributed.py, read in versions of 2024 and 2025) with accumulate_grad_in_fp32. Without this
// setting, 16-bit parameters cannot have FP32 optimizer states.
//
//  * FP32GradientAccumulator stores FP32 gradients of all parameters. After each backward, the
//    16-bit gradients are added to the FP32 gradients tensor by tensor, in registration order, and
//    freed.
//  * zero_stage 0: the model is in PyTorch's DistributedDataParallel. In the last micro-batch, its
//    hook processes each full bucket in order and adds its gradients to the FP32 gradients. The
//    FP32 gradients are all-reduced, all tensors of the bucket in one group, while backward
//    continues. At the end of backward, DDP copies the buckets back and waits for the last
//    all-reduce.
//  * zero_stage 1: no DDP. After the last backward, all FP32 gradients are all-reduced at once.
//    ZeroDistributedOptimizer divides every tensor into one slice per rank. (For uneven tensors,
//    some slices are one element shorter; in this model, the last ranks have fewer elements.)
//    Updated slices are packed and gathered. PyTorch's all_gather of lists allocates memory for the
//    list and for the received data. Each rank's part is copied to the list, then tensor by tensor
//    to the parameters.
//  * The optimizer updates FP32 values, and each tensor is copied to its 16-bit parameter. Then the
//    FP32 gradients are set to zero. The all-reduce of the loss, a single number, is not modeled.
//  * Gradients of tied tensors are summed together with the replicas' gradients: gradients of an
//    embedding over its stages, gradients of a norm over the ranks that apply it to parts of the
//    tokens (sync_tied_weights_gradients). A column-parallel matrix multiplication waits for the
//    gather of its input; their overlap (tp_linear_async_communication) is not modeled.
program::Program LowerNanotron(const scenario::Scenario& scenario, const LowerOptions& options);

// Textbook data parallelism and ZeRO (Rajbhandari et al. 2020, arXiv 1910.02054), with only kernels
// and collectives. There are no launch costs and no copies. The host issues a layer when the device
// has computed the previous layer, so memory is allocated only when the device needs it. There is
// one communicator on its own stream; collectives run in issue order.
//
//   Stage 0: gradients are all-reduced per bucket as they become ready in backward. With `overlap:
//     false`, they are all-reduced after backward. One update follows.
//   Stages 1 and 2: gradients are reduce-scattered per bucket, and every rank updates its shard.
//     Updated parameters are all-gathered per bucket, in the order of the next forward. The
//     all-gathers continue while later buckets update and while the next forward runs, because a
//     layer waits only for its own buckets. With `overlap: false`, reduction, update and all-gather
//     run one after another. Stage 1 keeps full gradients and communicates once a step (with
//     `no_sync: false`, as in stage 2). Stage 2 reduces every micro-batch and keeps the shard (with
//     `accumulate_unsharded`, as in stage 1). Stage 0 with `no_sync: false` is stage 2 with one
//     shard that contains all gradients.
//   Stage 3: parameters are all-gathered in the compute type before a unit's forward and backward,
//     at most `prefetch` units ahead, and freed afterward. Gradients are treated as in stage 2, per
//     unit unless bucket_size is set. A unit is a layer; layers that share a tied tensor form one
//     unit.
//
// With shard_group_size < data, all of these collectives run inside a shard group. Once a step, the
// reduced shards are all-reduced over the replicas.
program::Program LowerReference(const scenario::Scenario& scenario, const LowerOptions& options);

}  // namespace stepcast::lowering
