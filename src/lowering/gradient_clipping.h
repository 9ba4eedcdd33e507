#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/data_type.h"
#include "src/lowering/training_step.h"
#include "src/model/layer.h"
#include "src/parallel/axis.h"
#include "src/plan/framework_style.h"

// `training.gradient_clipping`: all gradients together are scaled down to a largest norm before the
// update. How frameworks do it:
//  * torch.nn.utils.clip_grad_norm_ (ddp, fsdp2; torch/nn/utils/clip_grad.py): since torch 2.0 one
//    multi-tensor kernel takes the norms of all tensors, before that one kernel a tensor; the norms
//    are stacked and a norm taken of those; fsdp2's DTensors then add up over the ranks that share
//    the gradients. The gradients are multiplied whether or not the norm is too large, so that the
//    host need not know it.
//  * FullyShardedDataParallel.clip_grad_norm_ (fsdp1): tensor by tensor; the sum of squares is
//    all-reduced. Before torch 2.0 the host read the norm (`if clip_coef < 1`).
//  * Megatron-LM (megatron/core/optimizer/clip_grads.py @ 0293807e): a multi-tensor norm of the
//    main gradients of this rank, summed over the ranks, which the host reads (.item()) before it
//    decides whether to scale; here it always does.
//  * nanotron (nanotron/optim/clip_grads.py): tensor by tensor, whole gradients on every rank.
// DeepSpeed takes the norm in any case and multiplies while it unscales (deepspeed_parts.h).
// `reference` does what the textbook says: one pass for the norm, one for the product.
// In FP16 the loss's scale is undone first (gradient_clipping.h), also where nothing is clipped.
namespace stepcast::lowering {

// In FP16 the loss is multiplied, so that gradients do not vanish. Before the update they are
// divided again, and where one is not finite the step is left out:
//  * Megatron-LM (megatron/core/optimizer/optimizer.py, _unscale_main_grads_and_check_for_nan): one
//    multi-tensor kernel reads and writes the main gradients of this rank; whether one of any rank
//    is not finite is all-reduced, and the host reads it (.item()).
//  * torch.amp.GradScaler (torch/amp/grad_scaler.py; ddp, fsdp1 and fsdp2 with FP32 parameters,
//    since it refuses FP16 gradients): the same kernel, also for fused optimizers, whose kernels
//    read the flag; before others the host does. FSDP's gradients are shared out, and the flag is
//    all-reduced (torch/distributed/fsdp/sharded_grad_scaler.py).
// DeepSpeed's is in deepspeed_parts.h. NVIDIA's FusedLAMB with mixed precision checks in its own
// kernels.

class LossScaling {
 public:
  explicit LossScaling(TrainingStep& step) : step_(step), builder_(step.builder()) {}

  // Whether the plan's framework does so here; nothing below does anything otherwise.
  bool scales() const;

  // Prologue. `communicator`: the ranks that have parts of the gradients; kNone: all have all.
  void WritePrologue(Index communicator);

  // Before gradients are clipped, on the compute stream: this rank's `gradients`, of together
  // `elements` elements in `type`.
  void Undo(std::int64_t elements, DataType type, std::span<const program::BufferUse> gradients);

 private:
  plan::LossScaler scaler() const;

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Index found_ = program::kNone;       // buffer: an FP32 flag
  Index all_reduce_ = program::kNone;  // collective
  Index known_ = program::kNone;       // event: the host reads the flag
};

// Gradients that stand for the same number of elements of the model.
struct ClippedRange {
  program::Elements place{};
  std::int64_t elements = 0;
  bool counted = true;  // in the norm; else another stage of the pipeline counts these gradients
  model::ParameterGroup group = model::ParameterGroup::kDense;
};

class GradientClipping {
 public:
  explicit GradientClipping(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        kernels_(plan::TraitsOf(step.plan().data_parallel.framework).clipping),
        scaling_(step) {}

  // Whether the plan asks for it; otherwise what is below undoes the loss's scale alone.
  bool clips() const { return step_.plan().training.gradient_clipping.has_value(); }

  // Prologue. `communicator`: the ranks among which the stage's gradients are shared out; kNone
  // where this one has them all. Where ranks have other parts of the model, the norm is summed over
  // those, too: once, or, where other ranks have parts of the experts than of the rest, group by
  // group.
  void WritePrologue(Index communicator);

  // Before the update, on the compute stream. `gradients` names them, `tensors` tensors of together
  // `elements` elements in `type`; `ranges` are those of the model among them, where the data flow
  // is described. A stage without tensors counts none, and takes part in the sum of the norm.
  void Write(std::int64_t tensors, std::int64_t elements, DataType type,
             std::span<const program::BufferUse> gradients, std::span<const ClippedRange> ranges);

 private:
  bool TensorByTensor() const;
  bool HostReadsNorm() const;

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::ClippingKernels kernels_;
  LossScaling scaling_;
  // The axes along which ranks count other elements of the group's gradients. `shared_out`: also
  // those that share them out among each other.
  parallel::AxisSet AxesOfNorm(model::ParameterGroup group, bool shared_out) const;
  program::Elements SumOf(model::ParameterGroup group) const;

  Index squares_ = program::kNone;  // buffer: one FP32 number a sum
  // A sum over ranks, and whose squares it adds up; one of all groups where the same ranks do.
  std::vector<Index> all_reduces_;  // collectives
  Index known_ = program::kNone;    // event
};

}  // namespace stepcast::lowering
