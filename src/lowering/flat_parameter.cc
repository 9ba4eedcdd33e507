#include "src/lowering/flat_parameter.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "src/lowering/shard.h"

namespace stepcast::lowering {
namespace {

std::int64_t RoundedUp(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

FlatParameter Flatten(const model::Model& model, std::span<const int> tensors, std::int64_t ranks,
                      std::int64_t alignment) {
  FlatParameter flat{.ranks = ranks};
  for (const int tensor : tensors) {
    const std::int64_t elements = model.tensors[tensor].elements;
    if (elements == 0) continue;
    if (alignment > 0) flat.elements = RoundedUp(flat.elements, alignment);
    flat.tensors.push_back({.tensor = tensor, .elements = elements, .offset = flat.elements});
    flat.elements += elements;
    flat.exact += elements;
  }
  if (alignment > 0) flat.elements = RoundedUp(flat.elements, ranks);
  flat.shard = Shard(flat.elements, ranks).length();
  return flat;
}

std::vector<ShardPart> PartsOf(const FlatParameter& flat, std::int64_t index) {
  std::vector<ShardPart> parts;
  const std::int64_t begin = index * flat.shard, end = begin + flat.shard;
  for (const FlatTensor& tensor : flat.tensors) {
    const std::int64_t first = std::max(begin, tensor.offset);
    const std::int64_t last = std::min(end, tensor.offset + tensor.elements);
    if (first >= last) continue;
    parts.push_back({.tensor = tensor.tensor,
                     .first = first - tensor.offset,
                     .elements = last - first,
                     .offset = first - begin});
  }
  return parts;
}

std::int64_t FullestRank(std::span<const FlatParameter* const> parameters) {
  if (parameters.empty()) return 0;
  // By rank: how many tensors more than the rank before has.
  std::vector<std::int64_t> more(static_cast<std::size_t>(parameters.front()->ranks) + 1);
  for (const FlatParameter* flat : parameters) {
    for (const FlatTensor& tensor : flat->tensors) {
      ++more[tensor.offset / flat->shard];
      --more[(tensor.offset + tensor.elements - 1) / flat->shard + 1];
    }
  }
  std::inclusive_scan(more.begin(), more.end(), more.begin());
  return std::max_element(more.begin(), more.end()) - more.begin();
}

}  // namespace stepcast::lowering
