#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The parameter tensors of a model and the layers that use them.
//
// Tensors that training does not change are listed apart: they have no gradients, no optimizer
// states, and nothing of theirs is reduced.
namespace stepcast::model {

// What tensor parallelism does to a tensor. The ranks of a group have
enum class Division : std::uint8_t {
  kWhole,       // all of it each, the same on all
  kDimension0,  // a part each: of the rows, a linear layer's outputs
  kDimension1,  // ... of the columns, its inputs
  kGiven,       // one of its own each: its shape is already that of one rank (layer lists)
};

// One parameter tensor as the framework registers it.
struct Tensor {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  Division division = Division::kWhole;
  // With sequence parallelism a rank's gradient is of its part of the tokens alone (norms, and what
  // is added behind a reduction); the ranks add theirs up.
  bool sequence_parallel = false;
  bool of_block = false;
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
  std::vector<int> frozen{};  // the same of Model::frozen
  int work = 0;               // which LayerWork; identical layers share one
};

}  // namespace stepcast::model
