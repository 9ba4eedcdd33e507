#include <algorithm>
#include <cstddef>
#include <numeric>

#include "src/lowering/deepspeed_parts.h"

namespace stepcast::lowering {
namespace {

constexpr std::int64_t kMostOfExpertGroup = 178'956'971;

std::vector<int> AllTensors(const model::Model& model) {
  std::vector<int> all(model.tensors.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

FlatOrder::FlatOrder(const model::Model& model, std::int64_t ranks_given, bool round_robin)
    : FlatOrder(model, AllTensors(model), ranks_given, round_robin) {}

FlatOrder::FlatOrder(const model::Model& model, std::span<const int> of, std::int64_t ranks_given,
                     bool round_robin)
    : ranks(ranks_given) {
  const auto count = static_cast<std::int64_t>(of.size());
  const std::int64_t stride = round_robin ? ranks : 1;
  for (std::int64_t start = 0; start < std::min(stride, count); ++start) {
    for (std::int64_t t = start; t < count; t += stride) {
      tensors.push_back(of[static_cast<std::size_t>(t)]);
    }
  }
  offsets.resize(model.tensors.size());
  for (const model::Tensor& tensor : model.tensors) sizes.push_back(tensor.elements);
  for (const int tensor : tensors) {
    offsets[tensor] = elements_;
    elements_ += sizes[tensor];
  }
  const std::int64_t alignment = 2 * ranks;
  part_ = (elements_ + alignment - 1) / alignment * 2;
}

Holding FlatOrder::LargestHolding() const {
  Holding largest;
  // Tensors of a part, from the one that contains its start to the one that contains its end.
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

FlatGroups::FlatGroups(const model::Model& model, const OfParameterGroups<std::int64_t>& ranks,
                       bool experts_apart, bool round_robin)
    : of_tensors_(model.tensors.size()) {
  const auto add = [&](model::ParameterGroup group, std::span<const int> tensors) {
    Add(model, group, tensors, ranks[static_cast<std::size_t>(group)], round_robin);
  };
  std::vector<int> dense, experts;
  for (const int tensor : AllTensors(model)) {
    const bool apart =
        experts_apart && model.tensors[tensor].group == model::ParameterGroup::kExperts;
    (apart ? experts : dense).push_back(tensor);
  }
  add(model::ParameterGroup::kDense, dense);
  std::int64_t elements = 0;
  std::vector<int> group;
  for (const int tensor : experts) {
    if (!group.empty() && elements + model.tensors[tensor].elements > kMostOfExpertGroup) {
      add(model::ParameterGroup::kExperts, group);
      group.clear();
      elements = 0;
    }
    group.push_back(tensor);
    elements += model.tensors[tensor].elements;
  }
  if (!group.empty()) add(model::ParameterGroup::kExperts, group);
}

void FlatGroups::Add(const model::Model& model, model::ParameterGroup ranks_of,
                     std::span<const int> tensors, std::int64_t ranks, bool round_robin) {
  for (const int tensor : tensors) of_tensors_[static_cast<std::size_t>(tensor)] = groups_.size();
  groups_.push_back({.ranks_of = ranks_of, .flat = FlatOrder(model, tensors, ranks, round_robin)});
}

std::vector<DeepSpeedBucket> BucketsOf(const model::Model& model, std::span<const int> order,
                                       const FlatGroups& groups, std::int64_t limit) {
  std::vector<DeepSpeedBucket> buckets;
  std::int64_t last_owner = -1;
  auto last_ranks = model::ParameterGroup::kDense;
  for (const int tensor : order) {
    const std::int64_t elements = model.tensors[tensor].elements;
    if (buckets.empty() || buckets.back().elements + elements > limit) {
      buckets.emplace_back();
      last_owner = -1;
    }
    const FlatGroup& group = groups.of(tensor);
    DeepSpeedBucket& bucket = buckets.back();
    DeepSpeedBucket::Share& share = bucket.shares[static_cast<std::size_t>(group.ranks_of)];
    if (share.elements == 0) share.first = bucket.elements;
    bucket.tensors.push_back(tensor);
    bucket.elements += elements;
    share.elements += elements;
    bucket.extra_large = elements > limit;
    if (elements == 0) continue;
    const std::int64_t offset = group.flat.offsets[tensor], part = group.flat.part();
    const std::int64_t first = offset / part, last = (offset + elements - 1) / part;
    const bool goes_on = first == last_owner && group.ranks_of == last_ranks;
    share.parts += last - first + (goes_on ? 0 : 1);
    last_owner = last;
    last_ranks = group.ranks_of;
  }
  return buckets;
}

}  // namespace stepcast::lowering
