#pragma once

#include <cstdint>
#include <vector>

#include "src/base/data_type.h"
#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// The full gradients that autograd makes on one rank, tensor by tensor (PyTorch's Tensor.grad
// before any communication). A tensor's gradient is new memory at its first contribution; what a
// later micro-batch contributes is a tensor of its own that a kernel then adds. Within one
// micro-batch a tied tensor's contributions are added by the model's own kernels.
namespace stepcast::lowering {

class LocalGradients {
 public:
  // Describes buffers and kernels; allocates nothing.
  LocalGradients(TrainingStep& step, Operations& operations, DataType type);

  // The kernel about to be issued contributes to the gradient, reading the parameters in `source`:
  // makes room, says what it writes and what it puts there.
  void Write(int tensor, const program::Elements& source);
  // What this micro-batch has written.
  const Range& Written(int tensor) const;
  // The micro-batch's contributions are complete: adds them to those of earlier ones.
  void Complete(int tensor);
  void Release(int tensor);

  bool exists(int tensor) const { return gradients_[tensor].exists; }
  const Range& range(int tensor) const { return gradients_[tensor].own; }
  Index buffer(int tensor) const { return range(tensor).buffer(); }
  program::Elements place(int tensor) const { return range(tensor).place; }

 private:
  struct Gradient {
    Range own;
    Range further;                  // a later micro-batch's contribution
    std::int64_t micro_batch = -1;  // that `own` was made in
    std::int64_t latest = -1;       // micro-batch that contributed
    bool exists = false;
    bool further_exists = false;
  };

  TrainingStep& step_;
  Operations& operations_;
  std::vector<Gradient> gradients_;  // by tensor
};

}  // namespace stepcast::lowering
