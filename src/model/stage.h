#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/model/model.h"
#include "src/parallel/rank_grid.h"

namespace stepcast::model {

// The model as one rank has it: of tensors that are split among ranks, its part. Where an extent
// does not divide, the largest part.
Model Localised(const Model& whole, const parallel::Grids& grids);

// Which of a tensor's parts a rank with these coordinates has, counted along the axes that it is
// split along; 0 where it is whole.
std::int64_t PartOf(const Tensor& tensor, const parallel::Grids& grids,
                    const parallel::RankGrid::Coordinates& at);

// Models cut into the stages of a pipeline.

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
// result[c + 1]), blocks[c] of which are blocks. The embedding is of the first chunk, the head of
// the last. Requires that `blocks` add up to Blocks(whole), and that a chunk without a block is the
// first or the last one and has the embedding or the head; none: one chunk has all.
std::vector<int> ChunkLayers(const Model& whole, std::span<const std::int64_t> blocks);

// The parameters that the computation of one token takes: all of a dense model's; of a mixture's
// experts as many as a token takes, besides the routers and what all tokens take.
struct ActiveParameters {
  std::int64_t all = 0;
  // Of the input embedding a token takes one row. A table that the head uses, too, counts.
  std::int64_t without_input_embedding = 0;
};
ActiveParameters ActiveParametersOf(const Model& model);

}  // namespace stepcast::model
