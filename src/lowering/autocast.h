#pragma once

#include <vector>

#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// torch.autocast (torch/amp/autocast_mode.py): parameters are stored in a wider type than the type
// in which kernels compute. Before a layer's forward, the layer's matrices are cast to the compute
// type. Autograd keeps each copy until the backward of the matrix multiplication that reads it,
// even if blocks are recomputed, and for every way to gather the parameter. (Evidence: at the end
// of forward, public runs of FSDP1 with autocast have two extra bytes per model parameter; see the
// table of intelligent-machine-learning/dlrover pull request 825.)
//
// Vectors (biases, norms) and embedding tables are read in the stored type. A gradient is computed
// in the compute type and cast to the stored type in place. The data flow has gradients in the
// stored type, so it ignores this cast.
namespace stepcast::lowering {

class Autocast {
 public:
  Autocast(TrainingStep& step, Operations& operations) : step_(step), operations_(operations) {}

  // Adds the 16-bit copies, in the prologue. If no layer is cast, all other functions do nothing.
  void AddLayers();

  // Casts the layer's matrices. `parameter_of(tensor)` returns the Range in which the parameter is
  // stored.
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
  // Casts a gradient to the stored type. Call this function when the gradient of `tensor`, in the
  // range `gradient`, is complete.
  void CastGradient(int tensor, const Range& gradient);
  // Releases the remaining copies of the layer. CastGradient releases the copies of tensors whose
  // gradient is complete, but a tied tensor has a copy in several layers.
  void AfterBackward(int layer) {
    for (Copy& copy : CopiesOf(layer)) Release(copy);
  }
  // Returns the location from which the layer's kernels read a tensor: its copy, or `parameter` if
  // it has no copy.
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
  std::vector<int> layer_of_;  // indexed by tensor: the layer that owns its copy
  std::vector<Copy> none_;
};

}  // namespace stepcast::lowering
