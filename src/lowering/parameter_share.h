#pragma once

#include <array>
#include <cstdint>

#include "src/base/bytes.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

namespace stepcast::lowering {

// The trained parameters that a rank has of one parameter group, before they are sharded, and the
// ranks that share out what is sharded of them.
struct ParameterShare {
  std::int64_t elements = 0;
  std::int64_t ranks = 1;
};

// Elements of a model's tensors by model::ParameterGroup.
using GroupElements = std::array<std::int64_t, 2>;
GroupElements ElementsOf(const model::Model& model);

// The share that a rank has of each model::ParameterGroup. A model without experts, or whose
// experts stand on the same ranks as everything else, has dense parameters alone.
class ParameterShares {
 public:
  // `of_stage`: the elements of what a rank has of the model.
  ParameterShares(const plan::Plan& plan, const GroupElements& of_stage);

  std::int64_t elements() const;  // of all groups
  // So many bytes a parameter, rounded up to whole bytes of a rank.
  Bytes Sharded(std::int64_t bytes_per_parameter) const;
  Bytes Whole(std::int64_t bytes_per_parameter) const {
    return Bytes(elements() * bytes_per_parameter);
  }

 private:
  std::array<ParameterShare, 2> shares_;
};

// Optimizer states of what a rank has of the model, sharded or whole. Of optimizers whose moments
// depend on shapes, as if ranks shared out those of whole tensors: parts of tensors never have
// fewer.
Bytes OptimizerStates(const plan::Plan& plan, const model::Model& stage, bool sharded);

}  // namespace stepcast::lowering
