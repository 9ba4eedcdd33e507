#pragma once

#include <array>
#include <cstdint>

#include "src/base/bytes.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

namespace stepcast::lowering {

// The trained parameters of one parameter group on a rank before sharding, and the number of ranks
// that shard them.
struct ParameterShare {
  std::int64_t elements = 0;
  std::int64_t ranks = 1;
};

// The number of elements in a model's tensors, by model::ParameterGroup.
using GroupElements = std::array<std::int64_t, 2>;
GroupElements ElementsOf(const model::Model& model);

// A rank's part of each model::ParameterGroup. If experts are on the same ranks as all other
// parameters, or if the model has no experts, all elements are in the dense group.
class ParameterShares {
 public:
  // `of_stage` is the number of elements in the rank's part of the model.
  ParameterShares(const plan::Plan& plan, const GroupElements& of_stage);

  std::int64_t elements() const;  // sum over all groups
  // Returns the bytes per rank for sharded parameters of `bytes_per_parameter` bytes each, rounded
  // up.
  Bytes Sharded(std::int64_t bytes_per_parameter) const;
  Bytes Whole(std::int64_t bytes_per_parameter) const {
    return Bytes(elements() * bytes_per_parameter);
  }

 private:
  std::array<ParameterShare, 2> shares_;
};

// Returns the bytes of optimizer states for a rank's part of the model, sharded or complete. If an
// optimizer's moments depend on tensor shapes, the result is a lower bound: the states of complete
// tensors, divided by the number of ranks.
Bytes OptimizerStates(const plan::Plan& plan, const model::Model& stage, bool sharded);

}  // namespace stepcast::lowering
