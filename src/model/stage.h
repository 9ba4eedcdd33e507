#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/model/model.h"
#include "src/parallel/rank_grid.h"

namespace stepcast::model {

// Returns the model of one rank, with the rank's part of each divided tensor. If a dimension is not
// divisible by the number of ranks, the result has the largest part.
Model Localised(const Model& whole, const parallel::Grids& grids);

// Returns the index of a rank's part of a tensor, along the axes that divide the tensor. 0: no axis
// divides it.
std::int64_t PartOf(const Tensor& tensor, const parallel::Grids& grids,
                    const parallel::RankGrid::Coordinates& at);

// The stages of a pipeline as models.

// The layers of one pipeline stage as a separate model, with the complete model's order of tensors
// and indices of layer works. If layers of several stages use a tied tensor, each of these stages
// has a copy.
struct StageModel {
  Model model;
  std::vector<int> layers;   // [layer of `model`]: index in the complete model
  std::vector<int> tensors;  // [tensor of `model`]: index in the complete model
};
// Returns the model of the stage with these layers. `layers` are ascending indices in the complete
// model.
StageModel StageOf(const Model& whole, std::span<const int> layers);

// Returns the number of blocks: all layers except the embedding and the head. In a layer list, all
// layers are blocks.
int Blocks(const Model& model);

// Returns the boundaries of pipeline chunks. Chunk c has the layers [result[c], result[c + 1]);
// blocks[c] of these layers are blocks. The first chunk also has the embedding, and the last chunk
// also has the head. The sum of `blocks` must be Blocks(whole). Only the first and the last chunk
// may have no blocks. If `blocks` is empty, one chunk has all layers.
std::vector<int> ChunkLayers(const Model& whole, std::span<const std::int64_t> blocks);

// The number of parameters with which one token is computed. For a dense model, these are all
// parameters. For a mixture, these are the experts of one token and all parameters that every token
// uses.
struct ActiveParameters {
  std::int64_t all = 0;
  // The number of these parameters without the input embedding, of which a token uses only one row.
  // An embedding that is also the head is included.
  std::int64_t without_input_embedding = 0;
};
ActiveParameters ActiveParametersOf(const Model& model);

}  // namespace stepcast::model
