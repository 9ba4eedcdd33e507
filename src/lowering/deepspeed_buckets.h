#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "src/model/layer.h"
#include "src/model/model.h"

// How DeepSpeed's stages 1 and 2 lay out parameters and cut gradients into buckets
// (deepspeed/runtime/zero/stage_1_and_2.py @ 02aa38c3; of experts deepspeed/moe/utils.py @
// ce352eb1).
namespace stepcast::lowering {

// The most that one rank has to do with: tensors that reach into its part, whole.
struct Holding {
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
};

// Parameters in one flat tensor, cut into equal parts, one for each rank.
struct FlatOrder {
  FlatOrder() = default;
  // Registration order, or `round_robin`: every ranks-th tensor, from each start in turn. Padded to
  // a multiple of 2 x ranks elements, so that parts begin at 4 bytes. `of`: the tensors, or all.
  FlatOrder(const model::Model& model, std::span<const int> of, std::int64_t ranks,
            bool round_robin);
  FlatOrder(const model::Model& model, std::int64_t ranks, bool round_robin);

  std::int64_t padded() const { return part_ * ranks; }
  std::int64_t part() const { return part_; }
  std::int64_t elements() const { return elements_; }  // without padding
  // Of all ranks, the largest number and sum of tensors that reach into a part.
  Holding LargestHolding() const;

  std::int64_t ranks = 1;
  std::vector<int> tensors;           // in flat order
  std::vector<std::int64_t> offsets;  // by tensor of the model, in the flat tensor
  std::vector<std::int64_t> sizes;    // by tensor of the model

 private:
  std::int64_t part_ = 0, elements_ = 0;
};

// The parameters that one call of DeepSpeed's optimizer updates. They lie in one flat buffer of
// their own.
struct FlatGroup {
  model::ParameterGroup ranks_of = model::ParameterGroup::kDense;  // that have parts of it
  FlatOrder flat;
};

// By model::ParameterGroup.
template <typename Value>
using OfParameterGroups = std::array<Value, std::size(model::kParameterGroups)>;

// The groups of the optimizer's parameters: the dense ones, and experts, which stand on other
// ranks, in groups of at most 178,956,971 elements, a larger tensor by itself
// (split_params_into_different_moe_groups_for_optimizer). `ranks` share each out. Without
// `experts_apart` there is one group.
class FlatGroups {
 public:
  FlatGroups(const model::Model& model, const OfParameterGroups<std::int64_t>& ranks,
             bool experts_apart, bool round_robin);

  std::span<const FlatGroup> all() const { return groups_; }
  std::size_t group_of(int tensor) const { return of_tensors_[static_cast<std::size_t>(tensor)]; }
  const FlatGroup& of(int tensor) const { return groups_[group_of(tensor)]; }

 private:
  void Add(const model::Model& model, model::ParameterGroup ranks_of, std::span<const int> tensors,
           std::int64_t ranks, bool round_robin);

  std::vector<FlatGroup> groups_;
  std::vector<std::size_t> of_tensors_;
};

struct DeepSpeedBucket {
  // What the same ranks reduce.
  struct Share {
    std::int64_t elements = 0;
    std::int64_t first = 0;  // where its first tensor begins in the bucket
    // Runs of elements that one rank owns; a run ends where the next element is another's.
    std::int64_t parts = 0;
  };
  std::vector<int> tensors;  // in the order in which they are put in
  std::int64_t elements = 0;
  bool extra_large = false;  // one tensor, larger than a bucket may be
  OfParameterGroups<Share> shares{};
};

// A tensor that would take the bucket beyond `limit` elements opens the next one. Tensors of all
// groups go into the same buckets.
std::vector<DeepSpeedBucket> BucketsOf(const model::Model& model, std::span<const int> order,
                                       const FlatGroups& groups, std::int64_t limit);

}  // namespace stepcast::lowering
