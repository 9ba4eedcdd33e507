#include "src/lowering/deepspeed_buckets.h"

#include <algorithm>

namespace stepcast::lowering {

FlatOrder::FlatOrder(const model::Model& model, std::int64_t ranks_given, bool round_robin)
    : ranks(ranks_given) {
  const auto count = static_cast<std::int64_t>(model.tensors.size());
  const std::int64_t stride = round_robin ? ranks : 1;
  for (std::int64_t start = 0; start < std::min(stride, count); ++start) {
    for (std::int64_t t = start; t < count; t += stride) tensors.push_back(static_cast<int>(t));
  }
  std::int64_t offset = 0;
  offsets.resize(model.tensors.size());
  for (const model::Tensor& tensor : model.tensors) sizes.push_back(tensor.elements);
  for (const int tensor : tensors) {
    offsets[tensor] = offset;
    offset += sizes[tensor];
  }
  const std::int64_t alignment = 2 * ranks;
  part_ = (offset + alignment - 1) / alignment * 2;
}

Holding FlatOrder::LargestHolding() const {
  Holding largest;
  // The tensors of a part: from the one that reaches into its start to the one that reaches its
  // end.
  std::size_t first = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t begin = rank * part_, end = begin + part_;
    Holding holding;
    while (first < tensors.size() && offsets[tensors[first]] + sizes[tensors[first]] <= begin) {
      ++first;
    }
    for (std::size_t i = first; i < tensors.size() && offsets[tensors[i]] < end; ++i) {
      ++holding.tensors;
      holding.elements += sizes[tensors[i]];
    }
    largest.tensors = std::max(largest.tensors, holding.tensors);
    largest.elements = std::max(largest.elements, holding.elements);
  }
  return largest;
}

std::vector<DeepSpeedBucket> BucketsOf(const model::Model& model, std::span<const int> order,
                                       const FlatOrder& flat, std::int64_t limit) {
  std::vector<DeepSpeedBucket> buckets;
  std::int64_t last_owner = -1;
  for (const int tensor : order) {
    const std::int64_t elements = model.tensors[tensor].elements;
    if (buckets.empty() || buckets.back().elements + elements > limit) {
      buckets.emplace_back();
      last_owner = -1;
    }
    DeepSpeedBucket& bucket = buckets.back();
    bucket.tensors.push_back(tensor);
    bucket.elements += elements;
    bucket.extra_large = elements > limit;
    if (elements == 0) continue;
    const std::int64_t first = flat.offsets[tensor] / flat.part();
    const std::int64_t last = (flat.offsets[tensor] + elements - 1) / flat.part();
    bucket.parts += last - first + (first == last_owner ? 0 : 1);
    last_owner = last;
  }
  return buckets;
}

}  // namespace stepcast::lowering
