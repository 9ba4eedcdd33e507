#pragma once

#include <cstdint>
#include <vector>

#include "src/model/model.h"
#include "src/parallel/rank_grid.h"
#include "src/scenario/scenario.h"

namespace stepcast::validate {

// What gradients are made from where a micro-batch's passes communicate: each rank has a word of 32
// bits, which it makes from what messages of other pipeline stages and collectives inside layers
// bring, and which goes into those that leave. The same as programs say it
// (lowering/passes.h), from the layers' lists of operations alone, with all ranks of a
// pipeline stage side by side.
class PlainPasses {
 public:
  explicit PlainPasses(const scenario::Scenario& scenario);

  // Neither pipeline stages nor ranks that divide layers, sequences or experts: gradients are made
  // from rank, step and micro-batch.
  bool apart() const { return apart_; }
  // Of a pipeline stage: those of the first stage stand for all.
  int ranks() const { return ranks_; }
  // [rank][layer][position in Layer::tensors]: the seed of the layer's contribution to the gradient
  // of its tensor.
  using Seeds = std::vector<std::vector<std::vector<std::uint32_t>>>;
  Seeds Of(std::uint32_t step, int micro_batch) const;

 private:
  Seeds NoSeeds() const;
  bool SplitsBackward(int stage, int micro_batch) const;

  const scenario::Scenario& scenario_;
  const bool apart_;
  const parallel::Grids grids_;
  const int ranks_;
  std::vector<model::LayerWork> works_;
  std::vector<int> work_of_layer_;
  std::vector<int> stages_;  // the chunks' layers: where they begin, and where the last one ends
  // [chunk][micro-batch]: backward comes in two passes; empty: it never does.
  std::vector<std::vector<bool>> split_;
};

}  // namespace stepcast::validate
