#pragma once

#include <span>

#include "src/lowering/training_step.h"
#include "src/lowering/updated_tensors.h"

// Updates by optimizers of other libraries than PyTorch, which go through the tensors in Python and
// launch kernels of their own for each (plan::HasOwnKernels).
namespace stepcast::lowering {

// As WriteFrameworkUpdate.
//  * adamw_8bit of bitsandbytes, and lion: one kernel a tensor, after which the host waits for the
//    device (bitsandbytes/optim/optimizer.py, Optimizer8bit.step: torch.cuda.synchronize).
//  * adamw_8bit of torchao: one compiled kernel a tensor (torchao/optim/adam.py,
//    single_param_adam).
//  * adafactor (transformers/optimization.py, Adafactor.step, without a first moment, as the
//    Trainer makes it: scale_parameter and relative_step False): some fifteen kernels a tensor, all
//    in FP32, with copies of gradients and parameters of 16 bits.
void WriteTensorByTensor(TrainingStep& step, const plan::Training& training,
                         const UpdatedTensors& updated, std::span<const program::BufferUse> uses,
                         std::span<const program::Effect> updates);

}  // namespace stepcast::lowering
