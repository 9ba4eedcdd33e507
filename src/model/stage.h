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
  int first_layer = 0;       // of the whole model
  std::vector<int> tensors;  // [tensor of `model`]: its index in the whole one
};
StageModel StageOf(const Model& whole, int first_layer, int end_layer);

// How many blocks the model has: all layers but embedding and head; every layer of a layer list.
int Blocks(const Model& model);

// Where stages begin, and where the last one ends: stage s has the layers [result[s],
// result[s + 1]), blocks[s] of which are blocks. The embedding comes with the first block, the head
// with the last. Requires that `blocks` are 1 or more and add up to Blocks(whole).
std::vector<int> StageLayers(const Model& whole, std::span<const std::int64_t> blocks);

}  // namespace stepcast::model
