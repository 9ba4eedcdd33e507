#pragma once

#include <utility>
#include <vector>

#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// Where a product adds to the main gradient itself, autograd is still given a gradient of the
// weight's shape, which nothing reads. Transformer Engine's layers keep one for each shape
// (transformer_engine/pytorch/module/base.py, get_dummy_wgrad); the output layer, which is
// Megatron-LM's own, has one until the hook lets it go (core/tensor_parallel/layers.py): where the
// embedding is tied to it, when that has its gradient, too. Nothing without Transformer Engine's
// layers: before them Megatron-LM gave autograd none.
namespace stepcast::lowering {

class DummyGradients {
 public:
  DummyGradients(TrainingStep& step, Operations& operations)
      : step_(step), operations_(operations) {}

  void WritePrologue();
  // Before each kernel that adds to the main gradient of a tensor, and when all of a micro-batch
  // have.
  void BeforeGradient(int tensor) {
    if (of_output_layer_.empty()) return;
    OfOutputLayer& own = of_output_layer_[tensor];
    if (own.dummy && !std::exchange(own.exists, true)) {
      operations_.Allocate(step_.compute(), own.dummy);
    }
  }
  void GradientReady(int tensor) {
    if (of_output_layer_.empty()) return;
    OfOutputLayer& own = of_output_layer_[tensor];
    if (std::exchange(own.exists, false)) operations_.Release(own.dummy);
  }

 private:
  struct OfOutputLayer {
    Range dummy;  // of other tensors none
    bool exists = false;
  };
  void KeepOneForEachShape();
  void AddOfOutputLayer();

  TrainingStep& step_;
  Operations& operations_;
  std::vector<OfOutputLayer> of_output_layer_;  // by tensor; empty: there are none
};

}  // namespace stepcast::lowering
