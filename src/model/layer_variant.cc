#include "src/model/layer_variant.h"

#include <algorithm>

#include "src/base/check.h"

namespace stepcast::model {
namespace {

// Whether backward ends in the first block. A checkpoint around the block runs it again only if its
// input has a gradient; then the embedding's output has one (Hugging Face's
// enable_input_require_grads, NeMo's hook).
bool FirstBlockEndsBackward(const Architecture& architecture, const WorkOptions& options) {
  const bool whole = options.checkpointing == Checkpointing::kFull ||
                     options.checkpointing == Checkpointing::kSelectiveOp;
  const bool norms =
      options.checkpointing == Checkpointing::kSelective && options.recomputed_modules.layernorm;
  return architecture.lora.adapts() && !whole && !norms;
}

// The kinds of blocks, most frequent first.
std::vector<int> KindsByFrequency(const Architecture& architecture) {
  std::vector<std::int64_t> blocks(architecture.kinds.size());
  for (const int kind : architecture.pattern) ++blocks[static_cast<std::size_t>(kind)];
  std::vector<int> kinds;
  for (std::size_t kind = 0; kind < blocks.size(); ++kind) {
    if (blocks[kind] > 0) kinds.push_back(static_cast<int>(kind));
  }
  std::stable_sort(kinds.begin(), kinds.end(), [&](int a, int b) {
    return blocks[static_cast<std::size_t>(a)] > blocks[static_cast<std::size_t>(b)];
  });
  return kinds;
}

}  // namespace

std::vector<LayerVariant> VariantsOf(const Architecture& architecture, const WorkOptions& options) {
  const bool mixture = architecture.experts.exist();
  const std::vector<int> kinds_by_frequency = KindsByFrequency(architecture);
  const auto of_kind = [&](int kind) {
    return LayerVariant{
        .experts = architecture.kinds[static_cast<std::size_t>(kind)].experts.exist(),
        .block_kind = kind};
  };
  const bool described = !kinds_by_frequency.empty();
  const LayerVariant block =
      described ? of_kind(kinds_by_frequency.front()) : LayerVariant{.experts = mixture};
  std::vector<LayerVariant> variants{
      {.kind = LayerKind::kEmbedding}, block, {.kind = LayerKind::kHead}};
  for (std::size_t i = 1; i < kinds_by_frequency.size(); ++i) {
    variants.push_back(of_kind(kinds_by_frequency[i]));
  }
  const bool dense_blocks =
      !described && mixture &&
      (architecture.experts.leading_dense > 0 || architecture.experts.every > 1);
  if (dense_blocks) variants.push_back({});
  if (architecture.encoder.exists()) {
    variants.push_back(of_kind(KindOfBlock(architecture, architecture.encoder.layers - 1)));
    variants.back().ends_encoder = true;
  }
  std::size_t kinds = variants.size();
  const auto add_others = [&](bool LayerVariant::*member) {
    for (std::size_t i = 0; i < kinds; ++i) {
      if (variants[i].kind != LayerKind::kBlock) continue;
      variants.push_back(variants[i]);
      variants.back().*member = true;
    }
  };
  if (!described && MixesWindows(architecture)) add_others(&LayerVariant::full_attention);
  kinds = variants.size();
  if (options.checkpointing != Checkpointing::kNone && !options.checkpointed_blocks.all()) {
    add_others(&LayerVariant::uncheckpointed);
  } else if (options.checkpointing != Checkpointing::kNone && options.blocks_per_checkpoint > 1) {
    add_others(&LayerVariant::continues_checkpoint);
  }
  if (FirstBlockEndsBackward(architecture, options)) add_others(&LayerVariant::ends_backward);
  return variants;
}

LayerVariant VariantOf(const Architecture& architecture, const WorkOptions& options,
                       const Layer& layer, std::int64_t block) {
  LayerVariant variant{.kind = layer.kind,
                       .experts = layer.experts,
                       .full_attention = layer.full_attention,
                       .block_kind = layer.block_kind,
                       .ends_encoder = layer.ends_encoder};
  if (layer.kind != LayerKind::kBlock) return variant;
  if (options.checkpointing != Checkpointing::kNone) {
    if (!options.checkpointed_blocks.all()) {
      variant.uncheckpointed = !options.checkpointed_blocks.Has(block);
    } else {
      variant.continues_checkpoint = block % options.blocks_per_checkpoint != 0;
    }
    if (variant.uncheckpointed || variant.continues_checkpoint) return variant;
  }
  variant.ends_backward = layer.first_block && FirstBlockEndsBackward(architecture, options);
  return variant;
}

int IndexOf(const std::vector<LayerVariant>& variants, const LayerVariant& variant) {
  const auto found = std::find(variants.begin(), variants.end(), variant);
  STEPCAST_CHECK(found != variants.end(), "a layer's variant must belong to its architecture");
  return static_cast<int>(found - variants.begin());
}

}  // namespace stepcast::model
