#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The parameter tensors of a model and the layers that use them.
namespace stepcast::model {

// One parameter tensor as the framework registers it.
struct Tensor {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
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
  int work = 0;  // which LayerWork; identical layers share one
};

}  // namespace stepcast::model
