#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/time.h"
#include "src/parallel/axis.h"

namespace stepcast::model {

// The parameter tensors of a model and the layers that use them.
//
// Tensors that training does not change are listed apart: they have no gradients, no optimizer
// states, and nothing of theirs is reduced.

// The ranks along an axis have a part each of a tensor's dimension.
struct Split {
  // Each rank has a tensor of its own, whose shape is already that of one rank (layer lists).
  static constexpr int kOwn = -1;

  parallel::Axis axis = parallel::Axis::kTensor;
  int dimension = kOwn;
  friend bool operator==(const Split&, const Split&) = default;
};

// Which tensors are sharded, reduced and counted alike. Ranks that hold the same part of the one
// group need not hold the same part of the other.
enum class ParameterGroup : std::uint8_t {
  kDense,
  kExperts,  // weights of a mixture's experts, which stand on the expert grid (parallel::Grids)
};
inline constexpr ParameterGroup kParameterGroups[] = {ParameterGroup::kDense,
                                                      ParameterGroup::kExperts};

// One parameter tensor as the framework registers it.
struct Tensor {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  // Ranks along all other axes have the same values of it.
  std::vector<Split> splits{};
  ParameterGroup group = ParameterGroup::kDense;
  // With sequence parallelism a rank's gradient is of its part of the tokens alone (norms, and what
  // is added behind a reduction); the ranks add theirs up.
  bool sequence_parallel = false;
  bool of_block = false;

  bool IsSplitAlong(parallel::AxisSet axes) const {
    return std::any_of(splits.begin(), splits.end(),
                       [&](const Split& split) { return axes.Has(split.axis); });
  }
};

enum class LayerKind : std::uint8_t { kEmbedding, kBlock, kHead };

// A module that runs as a whole: the embedding, one transformer block, the head (final norm, output
// projection and loss). Layers stand in execution order.
struct Layer {
  std::string name;  // "model.layers.0"
  LayerKind kind = LayerKind::kBlock;
  // Indices into Model::tensors. The layer's operators call them by their position here. A tied
  // tensor stands in two layers (GPT-2: embedding and head); the first one owns it.
  std::vector<int> tensors;
  std::vector<int> frozen{};    // the same of Model::frozen
  bool first_block = false;     // the first block of the whole model
  bool experts = false;         // a block whose feed-forward is a mixture of experts
  bool full_attention = false;  // a block that attends to all tokens while others have a window
  int block_kind = -1;          // of a block: its place in Architecture::kinds; -1: it has none
  int listed = 0;               // of a layer list: which of its entries
};

// A model whose layer times are known, from a profile or a paper.

// A collective within a layer, over the ranks along an axis.
struct ListedCommunication {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  parallel::AxisSet axis = parallel::Axis::kTensor;
  Bytes bytes{};  // as nccl-tests count
};

struct ListedLayer {
  std::string name;
  std::int64_t repeat = 1;
  std::vector<std::int64_t> parameters;   // elements of each tensor, registration order
  Time forward;                           // one micro-batch
  Time backward;                          // the layer's gradients are ready at its end
  std::optional<Time> backward_weight{};  // the weights' part of `backward`; default half
  Bytes activation;                       // kept from forward to backward, one micro-batch
  Bytes output{};                         // handed to the next layer, one micro-batch
  // In order: n of them cut the pass into n + 1 equal parts, each of which needs what came before.
  std::vector<ListedCommunication> forward_communication{}, backward_communication{};
};

struct LayerList {
  std::vector<ListedLayer> layers;
  Time optimizer_step;  // all parameters on one device; a sharded update takes its share of it
};

}  // namespace stepcast::model
