#pragma once

#include <vector>

#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// torch.autocast (torch/amp/autocast_mode.py): parameters are kept in a larger type than kernels
// compute in. Each layer's matrices are cast before its forward, and autograd keeps each copy until
// the backward of the product that read it has run, also where blocks are recomputed, and whatever
// gathered the parameter (public runs of FSDP1 beside autocast have two bytes of memory for each
// parameter of the model at the end of forward, on 8 GPUs as on 64, with adapters as without: the
// table of intelligent-machine-learning/dlrover pull request 825); vectors (biases, norms) and what
// is only looked up are read as they are. A gradient is made in the compute type and cast up where
// it lies; its values are described in the type that it ends up in, so that the cast changes
// nothing.
namespace stepcast::lowering {

class Autocast {
 public:
  Autocast(TrainingStep& step, Operations& operations) : step_(step), operations_(operations) {}

  // Prologue: describes the copies. Where nothing is cast, nothing below does anything.
  void AddLayers();

  // `parameter_of`: (tensor) where the parameter is kept, a Range.
  template <typename ParameterOf>
  void BeforeForward(int layer, const ParameterOf& parameter_of) {
    for (Copy& copy : CopiesOf(layer)) {
      operations_.Allocate(step_.compute(), copy.range);
      if (copy.tensor == kFrozen) {
        CopyFrozen(copy.range);
      } else {
        operations_.Copy(step_.compute(), "autocast", copy.range, parameter_of(copy.tensor));
      }
      copy.held = true;
    }
  }
  // The tensor's gradient, which has just been made in `gradient`, is complete.
  void CastGradient(int tensor, const Range& gradient);
  // A tied tensor's gradient is not complete in every layer that has a copy of it.
  void AfterBackward(int layer) {
    for (Copy& copy : CopiesOf(layer)) Release(copy);
  }
  // Where the layer's kernels read a tensor that is kept in `parameter`.
  program::Elements ReadPlace(int layer, int tensor, const program::Elements& parameter) const;

 private:
  struct Copy {
    int tensor;  // kFrozen: all matrices of the layer that are not trained
    Range range;
    bool held = false;
  };

  static constexpr int kFrozen = -1;

  void AddFrozen(const model::Layer& layer, DataType computed);
  void CopyFrozen(const Range& target);
  std::vector<Copy>& CopiesOf(int layer) { return layers_.empty() ? none_ : layers_[layer]; }
  void Release(Copy& copy) {
    if (copy.held) operations_.Release(copy.range);
    copy.held = false;
  }

  TrainingStep& step_;
  Operations& operations_;
  std::vector<std::vector<Copy>> layers_;
  static constexpr int kNoLayer = -1;
  std::vector<int> layer_of_;  // by tensor, which has its copy
  std::vector<Copy> none_;
};

}  // namespace stepcast::lowering
