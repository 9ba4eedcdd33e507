#pragma once

#include <cstdint>
#include <vector>

#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// torch.autocast (torch/amp/autocast_mode.py): parameters are kept in a larger type than kernels
// compute in. Each layer's matrices are cast before its forward, and autograd keeps the copies for
// backward; vectors (biases, norms) and what is only looked up are read as they are. A gradient is
// made in the compute type and cast up where it lies; its values are described in the type that it
// ends up in, so that the cast changes nothing.
namespace stepcast::lowering {

class Autocast {
 public:
  Autocast(TrainingStep& step, Operations& operations) : step_(step), operations_(operations) {}

  // Prologue: describes the copies. Where nothing is cast, nothing below does anything.
  void AddLayers();

  // `parameter_of`: (tensor) where the parameter is kept, a Range.
  template <typename ParameterOf>
  void BeforeForward(int layer, const ParameterOf& parameter_of) {
    if (!Casts(layer)) return;
    const LayerCasts& casts = layers_[layer];
    const StreamId compute = step_.compute();
    operations_.Allocate(compute, casts.copies);
    for (const Piece& piece : casts.pieces) {
      const Range copy = casts.copies.Part(piece.offset, piece.elements);
      operations_.Copy(compute, "autocast", copy, parameter_of(piece.tensor));
    }
  }
  void AfterBackward(int layer) {
    if (Casts(layer)) operations_.Release(layers_[layer].copies);
  }
  // The tensor's gradient, which has just been made in `gradient`, is complete.
  void CastGradient(int tensor, const Range& gradient) {
    if (!cast_.empty() && cast_[tensor]) WriteGradientCast(gradient);
  }
  // Where the layer's kernels read a tensor that is kept in `parameter`.
  program::Elements ReadPlace(int layer, int tensor, const program::Elements& parameter) const {
    if (!Casts(layer)) return parameter;
    for (const Piece& piece : layers_[layer].pieces) {
      if (piece.tensor == tensor) return layers_[layer].copies.At(piece.offset);
    }
    return parameter;
  }

 private:
  struct LayerCasts {
    Range copies;
    Pieces pieces;  // in them
  };

  void WriteGradientCast(const Range& gradient);
  bool Casts(int layer) const { return !layers_.empty() && !layers_[layer].pieces.empty(); }

  TrainingStep& step_;
  Operations& operations_;
  std::vector<LayerCasts> layers_;
  std::vector<bool> cast_;  // by tensor
};

}  // namespace stepcast::lowering
