#pragma once

#include <compare>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/layer.h"
#include "src/model/layer_work.h"

// A variant: layers of a transformer that do the same work.
namespace stepcast::model {

struct LayerVariant {
  LayerKind kind = LayerKind::kBlock;
  bool experts = false;  // the feed-forward is a mixture of experts
  // Full attention in a model where other blocks have a window.
  bool full_attention = false;
  int block_kind = -1;        // Layer::block_kind
  bool ends_encoder = false;  // Layer::ends_encoder
  // No part of the block is recomputed, while others are (checkpointed_blocks).
  bool uncheckpointed = false;
  // The block is not the first of its checkpoint (blocks_per_checkpoint).
  bool continues_checkpoint = false;
  // With adapters: nothing before the block is trained, and backward ends in it.
  bool ends_backward = false;

  friend auto operator<=>(const LayerVariant&, const LayerVariant&) = default;
};

// The variants of the architecture's layers, in the order of TransformerWork's results: embedding,
// the most frequent block, head, then all others.
std::vector<LayerVariant> VariantsOf(const Architecture& architecture, const WorkOptions& options);

// The layer's variant. `block`: its number, counted from where checkpoints start.
LayerVariant VariantOf(const Architecture& architecture, const WorkOptions& options,
                       const Layer& layer, std::int64_t block);

// The index of the variant in VariantsOf.
int IndexOf(const std::vector<LayerVariant>& variants, const LayerVariant& variant);

}  // namespace stepcast::model
