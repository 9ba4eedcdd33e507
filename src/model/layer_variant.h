#pragma once

#include <compare>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/layer.h"
#include "src/model/layer_work.h"

// Which layers of a transformer do the same work: those of one variant.
namespace stepcast::model {

struct LayerVariant {
  LayerKind kind = LayerKind::kBlock;
  bool experts = false;  // its feed-forward is a mixture of experts
  // It attends to all tokens, while others have a window.
  bool full_attention = false;
  int block_kind = -1;  // Layer::block_kind
  // Nothing of the block is recomputed, while parts of others are (checkpointed_blocks).
  bool uncheckpointed = false;
  // The block lies behind the first of its checkpoint (blocks_per_checkpoint).
  bool continues_checkpoint = false;
  // With adapters: nothing before the block is trained, and backward ends in it.
  bool ends_backward = false;

  friend auto operator<=>(const LayerVariant&, const LayerVariant&) = default;
};

// The variants that layers of the architecture can have, in the order of TransformerWork's results:
// the embedding, the block that most layers are, the head, and behind them all others.
std::vector<LayerVariant> VariantsOf(const Architecture& architecture, const WorkOptions& options);

// The layer's variant. `block`: its number from where checkpoints are counted.
LayerVariant VariantOf(const Architecture& architecture, const WorkOptions& options,
                       const Layer& layer, std::int64_t block);

// Where the variant stands among VariantsOf.
int IndexOf(const std::vector<LayerVariant>& variants, const LayerVariant& variant);

}  // namespace stepcast::model
