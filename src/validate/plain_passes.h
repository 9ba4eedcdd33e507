#pragma once

#include <cstdint>
#include <vector>

#include "src/model/model.h"
#include "src/parallel/rank_grid.h"
#include "src/scenario/scenario.h"

namespace stepcast::validate {

// The seeds of gradients if a micro-batch's passes communicate. Each rank has a 32-bit check word,
// computed from messages of other pipeline stages and from collectives inside layers, and sent
// onward. The result equals that of step programs (lowering/passes.h), but is computed only from
// the layers' operation lists, for all ranks of a pipeline stage together.
class PlainPasses {
 public:
  explicit PlainPasses(const scenario::Scenario& scenario);

  // True if passes do not communicate: there are no pipeline stages, and no ranks divide layers,
  // sequences or experts. Gradients then depend on rank, step and micro-batch.
  bool apart() const { return apart_; }
  // The number of ranks in a pipeline stage. The ranks of the first stage represent all.
  int ranks() const { return ranks_; }
  // [rank][layer][position in Layer::tensors]: the seed of the layer's contribution to the tensor's
  // gradient.
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
  std::vector<int> stages_;  // first layer of each chunk, and the end of the last chunk
  // [chunk][micro-batch]: whether backward has two passes; empty: no backward has.
  std::vector<std::vector<bool>> split_;
};

}  // namespace stepcast::validate
