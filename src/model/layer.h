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

// The parameter tensors of a model, and the layers that use these tensors.
//
// Frozen tensors are in separate lists. Frozen tensors have no gradients and no optimizer states,
// and no collective reduces them.

// How the ranks along an axis divide one dimension of a tensor.
struct Split {
  // For layer lists: marks a tensor that differs between ranks and whose shape is the shape on one
  // rank.
  static constexpr int kOwn = -1;

  parallel::Axis axis = parallel::Axis::kTensor;
  int dimension = kOwn;
  friend bool operator==(const Split&, const Split&) = default;
};

// Parameter tensors that are sharded and reduced in the same way. Two ranks with the same part of
// the dense tensors may have different experts.
enum class ParameterGroup : std::uint8_t {
  kDense,
  // The weights of a mixture's experts, which have their own process grid (parallel::Grids).
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
  // tokens, so that the ranks must sum the gradients. True for norms and for biases that are added
  // after a reduction.
  bool sequence_parallel = false;
  bool of_block = false;

  bool IsSplitAlong(parallel::AxisSet axes) const {
    return std::any_of(splits.begin(), splits.end(),
                       [&](const Split& split) { return axes.Has(split.axis); });
  }
};

enum class LayerKind : std::uint8_t { kEmbedding, kBlock, kHead };

// A layer is the embedding, one transformer block, or the head (final norm, output projection and
// loss). Layers are stored in execution order.
struct Layer {
  std::string name;  // "model.layers.0"
  LayerKind kind = LayerKind::kBlock;
  // The layer's trained tensors, as indices in Model::tensors. Operators refer to a tensor by its
  // position in this list. A tied tensor is in the lists of two layers (in GPT-2: embedding and
  // head) and belongs to the first.
  std::vector<int> tensors;
  std::vector<int> frozen{};    // indices into Model::frozen
  bool first_block = false;     // the first block of the complete model
  bool experts = false;         // a block whose feed-forward layer is a mixture of experts
  bool full_attention = false;  // full attention in a model in which other blocks have a window
  int block_kind = -1;          // for a block: index in Architecture::kinds; -1: the model has no
                                // kinds
  bool ends_encoder = false;    // the last block of an encoder before a decoder; includes the
                                // encoder's norm
  int listed = 0;               // for a layer list: index of the layer's entry in LayerList
};

// A layer list is a model whose layer times are input, for example from a profile or a paper.

// A collective within a layer, among the ranks along an axis of the process grid.
struct ListedCommunication {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  parallel::AxisSet axis = parallel::Axis::kTensor;
  Bytes bytes{};  // message size as nccl-tests counts it
};

struct ListedLayer {
  std::string name;
  std::int64_t repeat = 1;
  std::vector<std::int64_t> parameters;  // elements of each tensor, in registration order
  Time forward;                          // time of one micro-batch
  Time backward;                         // time of one micro-batch; at its end, the layer's
                                         // gradients are complete
  // The time within `backward` for weight gradients. Not set: half of `backward`.
  std::optional<Time> backward_weight{};
  Bytes activation;  // kept from forward to backward, for one micro-batch
  Bytes output{};    // passed to the next layer, for one micro-batch
  // The collectives in each pass, in execution order. n collectives divide the pass into n + 1
  // parts of equal time, and each part waits for the previous collective.
  std::vector<ListedCommunication> forward_communication{}, backward_communication{};
};

struct LayerList {
  std::vector<ListedLayer> layers;
  // The time in which one device updates all parameters. A rank that updates only its shard needs a
  // proportional fraction of this time.
  Time optimizer_step;
};

}  // namespace stepcast::model
