#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/data_type.h"
#include "src/lowering/training_step.h"
#include "src/model/layer.h"
#include "src/parallel/axis.h"
#include "src/plan/framework_style.h"

// `training.gradient_clipping`: before the update, all gradients are scaled by one factor so that
// their total norm does not exceed a limit. By framework:
//  * torch.nn.utils.clip_grad_norm_ (ddp, fsdp2; torch/nn/utils/clip_grad.py): since torch 2.0, one
//    multi-tensor kernel computes the norms of all tensors; before that, one kernel per tensor. The
//    norms are stacked, and the norm of the stack is computed. fsdp2's DTensors then sum over the
//    ranks that share the gradients. The gradients are always multiplied, so the host does not need
//    the norm.
//  * FullyShardedDataParallel.clip_grad_norm_ (fsdp1): tensor by tensor; the sum of squares is
//    all-reduced. Before torch 2.0, the host read the norm (`if clip_coef < 1`).
//  * Megatron-LM (megatron/core/optimizer/clip_grads.py @ 0293807e): a multi-tensor norm of this
//    rank's main gradients, summed over the ranks. The host reads the norm (.item()) to decide
//    whether to scale; the model assumes that it always scales.
//  * nanotron (nanotron/optim/clip_grads.py): tensor by tensor, full gradients on every rank.
//
// DeepSpeed always computes the norm, and multiplies when it unscales (deepspeed_parts.h).
// `reference` has one pass for the norm and one for the multiplication.
//
// FP16 loss scaling is undone before clipping, even if gradients are not clipped. The loss is
// multiplied so that gradients do not underflow. Before the update, the gradients are divided by
// the same factor. If any gradient is not finite, the step is skipped.
//  * Megatron-LM (megatron/core/optimizer/optimizer.py, _unscale_main_grads_and_check_for_nan): one
//    multi-tensor kernel reads and writes this rank's main gradients. A flag (some gradient on some
//    rank is not finite) is all-reduced, and the host reads the flag (.item()).
//  * torch.amp.GradScaler (torch/amp/grad_scaler.py; ddp, fsdp1 and fsdp2 with FP32 parameters,
//    because it rejects FP16 gradients): the same kernel, also for fused optimizers, whose kernels
//    read the flag. For other optimizers, the host reads the flag. FSDP's gradients are sharded, so
//    the flag is all-reduced (torch/distributed/fsdp/sharded_grad_scaler.py).
//
// For DeepSpeed, see deepspeed_parts.h. NVIDIA's FusedLAMB with mixed precision checks in its own
// kernels.
namespace stepcast::lowering {

// A range of gradients. Each element of the range is the gradient of one element of the model.
struct ClippedRange {
  program::Elements place{};
  std::int64_t elements = 0;
  bool counted = true;  // false: another pipeline stage includes the range in the norm
  model::ParameterGroup group = model::ParameterGroup::kDense;
};

class GradientClipping {
 public:
  explicit GradientClipping(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        kernels_(plan::TraitsOf(step.plan().data_parallel.framework).clipping) {}

  // Returns whether the plan clips gradients. If false, the functions below only undo the loss
  // scaling.
  bool clips() const { return step_.plan().training.gradient_clipping.has_value(); }

  // Writes the prologue. `communicator` connects the ranks among which the stage's gradients are
  // divided (kNone: this rank has all of them). If the model is divided among ranks, the norm is
  // also summed over these ranks. If experts and dense parameters are on different ranks, each
  // parameter group has a separate sum.
  void WritePrologue(Index communicator);

  // Undoes the loss scaling and clips the gradients, on the compute stream. Call this function
  // before the update. The gradients are `tensors` tensors of `type` with `elements` elements in
  // total. With a data flow, `ranges` are their locations. A stage without tensors still
  // participates in the sum for the norm.
  void Write(std::int64_t tensors, std::int64_t elements, DataType type,
             std::span<const program::BufferUse> gradients, std::span<const ClippedRange> ranges);

 private:
  // Returns whether the framework scales the loss.
  bool ScalesLoss() const;
  // Adds loss scaling. `communicator` connects the ranks among which the gradients are divided
  // (kNone: every rank has all gradients).
  void AddLossScaling(Index communicator);
  void UndoLossScale(std::int64_t elements, DataType type,
                     std::span<const program::BufferUse> gradients);
  bool TensorByTensor() const;
  bool HostReadsNorm() const;

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::ClippingKernels kernels_;
  // Returns the axes over which the group's norm is summed: the axes that divide the model and, if
  // `shared_out` is true, the axes that shard the group's states.
  parallel::AxisSet AxesOfNorm(model::ParameterGroup group, bool shared_out) const;
  program::Elements SumOf(model::ParameterGroup group) const;

  Index squares_ = program::kNone;  // buffer with one FP32 number per sum
  // The sums over ranks: one per parameter group, or one for all groups if all groups are divided
  // among the same ranks.
  std::vector<Index> all_reduces_;  // indices of collectives
  Index known_ = program::kNone;    // index of an event
  // For loss scaling: the overflow flag, its all-reduce, and the event that the host waits for
  // before it reads the flag.
  Index found_ = program::kNone, all_reduce_found_ = program::kNone, found_known_ = program::kNone;
};

}  // namespace stepcast::lowering
