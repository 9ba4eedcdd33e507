#pragma once

#include <vector>

#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// torch.autocast (torch/amp/autocast_mode.py) stores parameters in a wider type than the type in
// which kernels compute. Before a layer's forward, the layer's matrices are cast to the compute
// type. Autograd keeps each copy until the backward of the product that read the copy. This also
// holds if blocks are recomputed, and for every way to gather the parameter. (Evidence: at the end
// of forward, public runs of FSDP1 with autocast hold two extra bytes per model parameter. See the
// table of intelligent-machine-learning/dlrover pull request 825.) Vectors (biases, norms) and
// embedding tables are read in the stored type. A gradient is computed in the compute type and cast
// to the stored type in place. The data flow describes gradients in the stored type from the start,
// so this cast has no effect in the data flow.
namespace stepcast::lowering {

class Autocast {
 public:
  Autocast(TrainingStep& step, Operations& operations) : step_(step), operations_(operations) {}

  // Describes the 16-bit copies, in the prologue. If no layer is cast, all other calls do nothing.
  void AddLayers();

  // Casts the layer's matrices. `parameter_of(tensor)` returns the Range that stores the parameter.
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
  // Casts a gradient to the stored type. Call this when the gradient of `tensor`, stored in
  // `gradient`, is complete.
  void CastGradient(int tensor, const Range& gradient);
  // Releases the layer's copies that CastGradient has not released. These copies exist because a
  // tied tensor has a copy in several layers, but its gradient is complete in only one of them.
  void AfterBackward(int layer) {
    for (Copy& copy : CopiesOf(layer)) Release(copy);
  }
  // Returns the place from which the layer's kernels read a tensor. This is the tensor's copy or,
  // if it has no copy, `parameter`, where the tensor is stored.
  program::Elements ReadPlace(int layer, int tensor, const program::Elements& parameter) const;

 private:
  struct Copy {
    int tensor;  // kFrozen: all untrained matrices of the layer
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
  std::vector<int> layer_of_;  // [tensor]: the layer that owns its copy
  std::vector<Copy> none_;
};

}  // namespace stepcast::lowering
