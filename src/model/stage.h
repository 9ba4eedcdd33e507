#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/model/model.h"

// Models cut into the stages of a pipeline.
namespace stepcast::model {

// The layers of one stage as a model of its own: tensors in the whole model's registration order,
// works numbered as the whole model's. A tied tensor that layers of several stages use stands in
// each of them.
struct StageModel {
  Model model;
  std::vector<int> layers;   // [layer of `model`]: its index in the whole one
  std::vector<int> tensors;  // [tensor of `model`]: its index in the whole one
};
// `layers`: ascending, of the whole model.
StageModel StageOf(const Model& whole, std::span<const int> layers);

// How many blocks the model has: all layers but embedding and head; every layer of a layer list.
int Blocks(const Model& model);

// Where chunks begin, and where the last one ends: chunk c has the layers [result[c],
// result[c + 1]), blocks[c] of which are blocks. The embedding comes with the first block, the head
// with the last. Requires that `blocks` are 1 or more and add up to Blocks(whole); none: one chunk
// has all.
std::vector<int> ChunkLayers(const Model& whole, std::span<const std::int64_t> blocks);

}  // namespace stepcast::model
