#include <algorithm>
#include <cstddef>

#include "src/lowering/deepspeed_parts.h"

namespace stepcast::lowering {
namespace {

constexpr std::int64_t kMostOfExpertGroup = 178'956'971;

}  // namespace

FlatLayout DeepSpeedLayout(const model::Model& model, std::span<const int> tensors,
                           std::int64_t ranks, bool round_robin) {
  FlatLayout flat;
  const std::size_t stride = round_robin ? static_cast<std::size_t>(ranks) : 1;
  for (std::size_t start = 0; start < std::min(stride, tensors.size()); ++start) {
    for (std::size_t t = start; t < tensors.size(); t += stride) {
      flat.Append(tensors[t], model.tensors[tensors[t]].elements);
    }
  }
  flat.Cut(ranks, 2 * ranks);
  return flat;
}

Holding LargestHolding(const FlatLayout& flat) {
  Holding largest;
  // Tensors of a part, from the one that contains its start to the one that contains its end.
  auto first = flat.tensors.begin();
  for (std::int64_t rank = 0; rank < flat.ranks; ++rank) {
    const std::int64_t begin = rank * flat.shard, end = begin + flat.shard;
    Holding holding;
    while (first != flat.tensors.end() && first->offset + first->elements <= begin) ++first;
    for (auto tensor = first; tensor != flat.tensors.end() && tensor->offset < end; ++tensor) {
      ++holding.tensors;
      holding.elements += tensor->elements;
    }
    largest.tensors = std::max(largest.tensors, holding.tensors);
    largest.elements = std::max(largest.elements, holding.elements);
  }
  return largest;
}

FlatGroups::FlatGroups(const model::Model& model, const OfParameterGroups<std::int64_t>& ranks,
                       bool experts_apart, bool round_robin)
    : of_tensors_(model.tensors.size()), offsets_(model.tensors.size()) {
  const auto add = [&](model::ParameterGroup group, std::span<const int> tensors) {
    Add(model, group, tensors, ranks[static_cast<std::size_t>(group)], round_robin);
  };
  std::vector<int> dense, experts;
  for (std::size_t t = 0; t < model.tensors.size(); ++t) {
    const bool apart = experts_apart && model.tensors[t].group == model::ParameterGroup::kExperts;
    (apart ? experts : dense).push_back(static_cast<int>(t));
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
  groups_.push_back(
      {.ranks_of = ranks_of, .flat = DeepSpeedLayout(model, tensors, ranks, round_robin)});
  for (const Piece& piece : groups_.back().flat.tensors) {
    offsets_[static_cast<std::size_t>(piece.tensor)] = piece.offset;
  }
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
    const std::int64_t offset = groups.offset_of(tensor), part = group.flat.shard;
    const std::int64_t first = offset / part, last = (offset + elements - 1) / part;
    const bool goes_on = first == last_owner && group.ranks_of == last_ranks;
    share.parts += last - first + (goes_on ? 0 : 1);
    last_owner = last;
    last_ranks = group.ranks_of;
  }
  return buckets;
}

}  // namespace stepcast::lowering
