#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/model/model.h"

// How DeepSpeed's stages 1 and 2 lay out parameters and cut gradients into buckets
// (deepspeed/runtime/zero/stage_1_and_2.py @ 02aa38c3).
namespace stepcast::lowering {

// The most that one rank has to do with: tensors that reach into its part, whole.
struct Holding {
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
};

// All parameters in one flat tensor, cut into equal parts, one for each rank.
struct FlatOrder {
  FlatOrder() = default;
  // Registration order, or `round_robin`: every ranks-th tensor, from each start in turn. Padded to
  // a multiple of 2 x ranks elements, so that parts begin at 4 bytes.
  FlatOrder(const model::Model& model, std::int64_t ranks, bool round_robin);

  std::int64_t padded() const { return part_ * ranks; }
  std::int64_t part() const { return part_; }
  // Of all ranks, the largest number and sum of tensors that reach into a part.
  Holding LargestHolding() const;

  std::int64_t ranks = 1;
  std::vector<int> tensors;           // in flat order
  std::vector<std::int64_t> offsets;  // by tensor, in the flat tensor
  std::vector<std::int64_t> sizes;    // by tensor

 private:
  std::int64_t part_ = 0;
};

struct DeepSpeedBucket {
  std::vector<int> tensors;  // in the order in which they are put in
  std::int64_t elements = 0;
  bool extra_large = false;  // one tensor, larger than a bucket may be
  // Runs of elements that one rank owns; a run ends where the next element is another's.
  std::int64_t parts = 0;
};

// A tensor that would take the bucket beyond `limit` elements opens the next one.
std::vector<DeepSpeedBucket> BucketsOf(const model::Model& model, std::span<const int> order,
                                       const FlatOrder& flat, std::int64_t limit);

}  // namespace stepcast::lowering
