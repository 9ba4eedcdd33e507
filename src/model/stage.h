#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/model/model.h"
#include "src/parallel/rank_grid.h"

namespace stepcast::model {

// The model as one rank has it, with the rank's part of divided tensors. If an extent does not
// divide, the largest part.
Model Localised(const Model& whole, const parallel::Grids& grids);

// The index of a rank's part of a tensor, counted along the axes that divide it; 0 if it is whole.
std::int64_t PartOf(const Tensor& tensor, const parallel::Grids& grids,
                    const parallel::RankGrid::Coordinates& at);

// Models divided into the stages of a pipeline.

// The layers of one stage as a separate model. Tensors are in the whole model's registration order,
// and works are numbered as in the whole model. A tied tensor that layers of several stages use is
// in each of them.
struct StageModel {
  Model model;
  std::vector<int> layers;   // [layer of `model`]: its index in the whole one
  std::vector<int> tensors;  // [tensor of `model`]: its index in the whole one
};
// `layers`: ascending indices in the whole model.
StageModel StageOf(const Model& whole, std::span<const int> layers);

// Number of blocks: all layers but embedding and head; all layers of a layer list.
int Blocks(const Model& model);

// Chunk boundaries: chunk c has the layers [result[c], result[c + 1]), and blocks[c] of them are
// blocks. The first chunk has the embedding, the last the head. Requires that `blocks` sum to
// Blocks(whole). A chunk without a block must be the first or last and have the embedding or the
// head. If `blocks` is empty, one chunk has all layers.
std::vector<int> ChunkLayers(const Model& whole, std::span<const std::int64_t> blocks);

// The parameters that take part in the computation of one token: all of a dense model; for a
// mixture, the experts that a token uses, the routers and everything that all tokens use.
struct ActiveParameters {
  std::int64_t all = 0;
  // A token uses one row of the input embedding. A table that the head also uses counts.
  std::int64_t without_input_embedding = 0;
};
ActiveParameters ActiveParametersOf(const Model& model);

}  // namespace stepcast::model
