#pragma once

#include <cstdint>
#include <vector>

#include "src/base/data_type.h"
#include "src/lowering/training_step.h"

// The full gradients that autograd makes on one rank, tensor by tensor (PyTorch's Tensor.grad
// before any communication). A tensor's gradient is new memory at its first contribution; what a
// later micro-batch contributes is a tensor of its own that a kernel then adds. Within one
// micro-batch a tied tensor's contributions are added by the model's own kernels.
namespace stepcast::lowering {

class LocalGradients {
 public:
  // Describes buffers and kernels; allocates nothing.
  LocalGradients(TrainingStep& step, DataType type);

  // Where the kernel about to be issued writes (a part of) the gradient; makes room for it.
  program::BufferUse Slot(int tensor);
  // The micro-batch's contributions are complete: adds them to those of earlier ones.
  void Complete(int tensor);
  void Release(int tensor);

  bool exists(int tensor) const { return gradients_[tensor].exists; }
  Index buffer(int tensor) const { return gradients_[tensor].buffer; }

 private:
  struct Gradient {
    Index buffer = program::kNone;
    Index further = program::kNone;  // buffer of a later micro-batch's contribution
    Index add = program::kNone;      // kernel
    std::int64_t micro_batch = -1;   // that `buffer` was made in
    bool exists = false;
    bool further_exists = false;
  };

  TrainingStep& step_;
  std::vector<Gradient> gradients_;  // by tensor
};

}  // namespace stepcast::lowering
