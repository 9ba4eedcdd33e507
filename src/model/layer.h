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
// Frozen tensors are listed separately: they have no gradients and no optimizer states, and are not
// reduced.

// Describes how the ranks along an axis divide one dimension of a tensor.
struct Split {
  // The value for tensors that are separate on each rank. The tensor already has the shape that it
  // has on one rank. Used for layer lists.
  static constexpr int kOwn = -1;

  parallel::Axis axis = parallel::Axis::kTensor;
  int dimension = kOwn;
  friend bool operator==(const Split&, const Split&) = default;
};

// A group of parameter tensors that are sharded, reduced and counted in the same way. Two ranks
// that have the same part of one group may have different parts of the other group.
enum class ParameterGroup : std::uint8_t {
  kDense,
  // The weights of a mixture's experts, which are placed on the expert grid (parallel::Grids).
  kExperts,
};
inline constexpr ParameterGroup kParameterGroups[] = {ParameterGroup::kDense,
                                                      ParameterGroup::kExperts};

// One parameter tensor as the framework registers it.
struct Tensor {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  // The axes along which the tensor is divided. Ranks along all other axes have equal values.
  std::vector<Split> splits{};
  ParameterGroup group = ParameterGroup::kDense;
  // Whether, with sequence parallelism, a rank's gradient covers only the rank's part of the
  // tokens, so that the ranks sum these gradients. True for norms and for biases that are added
  // after a reduction.
  bool sequence_parallel = false;
  bool of_block = false;

  bool IsSplitAlong(parallel::AxisSet axes) const {
    return std::any_of(splits.begin(), splits.end(),
                       [&](const Split& split) { return axes.Has(split.axis); });
  }
};

enum class LayerKind : std::uint8_t { kEmbedding, kBlock, kHead };

// A layer: a module that runs as a unit. Layers are the embedding, each transformer block and the
// head (final norm, output projection and loss). They are stored in execution order.
struct Layer {
  std::string name;  // "model.layers.0"
  LayerKind kind = LayerKind::kBlock;
  // The layer's trained tensors, as indices into Model::tensors. The layer's operators refer to a
  // tensor by its position in this list. A tied tensor belongs to two layers (in GPT-2: embedding
  // and head). The first of these layers owns the tensor.
  std::vector<int> tensors;
  std::vector<int> frozen{};    // indices into Model::frozen
  bool first_block = false;     // the first block of the whole model
  bool experts = false;         // a block whose feed-forward is a mixture of experts
  bool full_attention = false;  // a block with full attention in a model where others have a window
  int block_kind = -1;          // for a block: its index in Architecture::kinds; -1: it has none
  bool ends_encoder = false;    // the last block of an encoder before a decoder, with its norm
  int listed = 0;               // for a layer list: the index of its entry
};

// A model whose layer times are given, from a profile or a paper.

// A collective within a layer, among the ranks along an axis.
struct ListedCommunication {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  parallel::AxisSet axis = parallel::Axis::kTensor;
  Bytes bytes{};  // message size as nccl-tests counts it
};

struct ListedLayer {
  std::string name;
  std::int64_t repeat = 1;
  std::vector<std::int64_t> parameters;  // elements of each tensor, registration order
  Time forward;                          // one micro-batch
  Time backward;                         // the layer's gradients are ready at its end
  // The part of `backward` that computes weight gradients. None: half of `backward`.
  std::optional<Time> backward_weight{};
  Bytes activation;  // kept from forward to backward, for one micro-batch
  Bytes output{};    // passed to the next layer, for one micro-batch
  // The collectives within each pass, in execution order. n collectives divide the pass into n + 1
  // equal parts, and each part waits for the collective before it.
  std::vector<ListedCommunication> forward_communication{}, backward_communication{};
};

struct LayerList {
  std::vector<ListedLayer> layers;
  // The time that one device needs to update all parameters. A rank that updates only its shard
  // needs a proportional part of this time.
  Time optimizer_step;
};

}  // namespace stepcast::model
