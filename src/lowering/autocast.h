#pragma once

#include <vector>

#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// torch.autocast (torch/amp/autocast_mode.py): parameters are stored in a wider type than the type
// in which kernels compute. Before a layer's forward, its matrices are cast to the compute type.
// Autograd keeps each copy until the matrix multiplication that reads the copy has run in backward,
// even if blocks are recomputed. (Evidence: public FSDP1 runs with autocast use two extra bytes per
// parameter at the end of forward; see intelligent-machine-learning/dlrover pull request 825.)
//
// Vectors (biases, norms) and embedding tables are read in the stored type. A gradient is computed
// in the compute type and cast to the stored type. The data flow ignores this cast.
namespace stepcast::lowering {

class Autocast {
 public:
  Autocast(TrainingStep& step, Operations& operations) : step_(step), operations_(operations) {}

  // Adds the 16-bit copies, in the prologue. If no layer is cast, all other functions of this class
  // do nothing.
  void AddLayers();

  // Casts the layer's matrices. `parameter_of(tensor)` returns the Range of the stored parameter.
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
  // Casts the complete gradient of `tensor`, stored in the range `gradient`, to the stored type.
  void CastGradient(int tensor, const Range& gradient);
  // Releases the layer's copies that CastGradient has not released. A tied tensor has a copy in
  // each layer that uses it.
  void AfterBackward(int layer) {
    for (Copy& copy : CopiesOf(layer)) Release(copy);
  }
  // Returns the location from which the layer's kernels read a tensor: the cast copy, or
  // `parameter` if the tensor has no copy.
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
