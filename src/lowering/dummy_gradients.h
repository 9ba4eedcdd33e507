#pragma once

#include <vector>

#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// Where a product adds to the main gradient itself, autograd is still given a gradient of the
// weight's shape, which nothing reads. Transformer Engine's layers keep one for each shape
// (transformer_engine/pytorch/module/base.py, get_dummy_wgrad); the output layer, which is
// Megatron-LM's own, has one until the hook lets it go (core/tensor_parallel/layers.py). Nothing
// without Transformer Engine's layers: before them Megatron-LM gave autograd none.
namespace stepcast::lowering {

class DummyGradients {
 public:
  DummyGradients(TrainingStep& step, Operations& operations)
      : step_(step), operations_(operations) {}

  void WritePrologue();
  // Around the kernels that add to the main gradient of a tensor.
  void BeforeGradient(int tensor) {
    if (Has(tensor)) operations_.Allocate(step_.compute(), of_output_layer_[tensor]);
  }
  void AfterGradient(int tensor) {
    if (Has(tensor)) operations_.Release(of_output_layer_[tensor]);
  }

 private:
  bool Has(int tensor) const {
    return !of_output_layer_.empty() && static_cast<bool>(of_output_layer_[tensor]);
  }
  void KeepOneForEachShape();
  void AddOfOutputLayer();

  TrainingStep& step_;
  Operations& operations_;
  std::vector<Range> of_output_layer_;  // by tensor
};

}  // namespace stepcast::lowering
