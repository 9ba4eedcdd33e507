#pragma once

#include <cstdint>
#include <span>

#include "src/base/data_type.h"
#include "src/lowering/training_step.h"
#include "src/plan/framework_style.h"

// In FP16 the loss is multiplied, so that gradients do not vanish. Before the update they are
// divided again, and where one is not finite the step is left out:
//  * Megatron-LM (megatron/core/optimizer/optimizer.py, _unscale_main_grads_and_check_for_nan): one
//    multi-tensor kernel reads and writes the main gradients of this rank; whether one of any rank
//    is not finite is all-reduced, and the host reads it (.item()).
//  * torch.amp.GradScaler (torch/amp/grad_scaler.py; ddp, fsdp1 and fsdp2 with FP32 parameters,
//    since it refuses FP16 gradients): the same kernel, also for fused optimizers, whose kernels
//    read the flag; before others the host does. FSDP's gradients are shared out, and the flag is
//    all-reduced (torch/distributed/fsdp/sharded_grad_scaler.py).
// DeepSpeed's is in deepspeed_update.h. NVIDIA's FusedLAMB with mixed precision checks in its own
// kernels.
namespace stepcast::lowering {

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

}  // namespace stepcast::lowering
