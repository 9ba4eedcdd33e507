#pragma once

#include <compare>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/layer.h"
#include "src/model/layer_work.h"

// A variant is a set of transformer layers that do the same work.
namespace stepcast::model {

struct LayerVariant {
  LayerKind kind = LayerKind::kBlock;
  bool experts = false;  // the feed-forward layer is a mixture of experts
  // Whether the block has full attention in a model whose other blocks have a window.
  bool full_attention = false;
  int block_kind = -1;        // Layer::block_kind
  bool ends_encoder = false;  // Layer::ends_encoder
  // Whether this block is not recomputed, although other blocks are recomputed
  // (checkpointed_blocks).
  bool uncheckpointed = false;
  // Whether the block is in a checkpoint of several blocks, but not its first block
  // (blocks_per_checkpoint).
  bool continues_checkpoint = false;
  // With adapters: whether no earlier parameter is trained, so that backward ends in this block.
  bool ends_backward = false;

  friend auto operator<=>(const LayerVariant&, const LayerVariant&) = default;
};

// Returns the variants of the architecture's layers in the order of TransformerWork's results: the
// embedding, the most frequent block, the head, then all other variants.
std::vector<LayerVariant> VariantsOf(const Architecture& architecture, const WorkOptions& options);

// Returns the layer's variant. `block` is the block's index, counted from the first block to which
// the number of checkpointed blocks applies.
LayerVariant VariantOf(const Architecture& architecture, const WorkOptions& options,
                       const Layer& layer, std::int64_t block);

// Returns the index of the variant in `variants`, the result of VariantsOf.
int IndexOf(const std::vector<LayerVariant>& variants, const LayerVariant& variant);

}  // namespace stepcast::model
