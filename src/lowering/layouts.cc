#include "src/lowering/layouts.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <vector>

#include "src/base/check.h"

namespace stepcast::lowering {
std::vector<program::Effect> MovesOf(const Pieces& pieces, const program::Elements& target,
                                     const program::Elements& source, double scale) {
  std::vector<program::Effect> moves;
  for (const Piece& piece : pieces) {
    AppendJoined(moves, Scaled(scale, Move(Further(target, piece.offset),
                                           Further(source, piece.offset), piece.elements)));
  }
  return moves;
}

namespace {

std::int64_t RoundedUp(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::int64_t FlatLayout::Append(int tensor, std::int64_t count, std::int64_t alignment) {
  const std::int64_t offset = RoundedUp(elements, alignment);
  elements = offset + count;
  exact += count;
  if (count > 0) tensors.push_back({.tensor = tensor, .elements = count, .offset = offset});
  return offset;
}

void FlatLayout::Cut(std::int64_t into, std::int64_t alignment) {
  elements = RoundedUp(elements, alignment);
  ranks = into;
  shard = ShardLength(elements, ranks);
}

FlatLayout Flatten(const model::Model& model, std::span<const int> tensors, std::int64_t ranks,
                   std::int64_t alignment) {
  FlatLayout flat;
  flat.tensors.reserve(tensors.size());
  for (const int tensor : tensors) {
    const std::int64_t elements = model.tensors[tensor].elements;
    if (elements > 0) flat.Append(tensor, elements, std::max<std::int64_t>(alignment, 1));
  }
  flat.Cut(ranks, alignment > 0 ? ranks : 1);
  return flat;
}

Pieces PartsOf(const FlatLayout& flat, std::int64_t index) {
  Pieces parts;
  const std::int64_t begin = index * flat.shard, end = begin + flat.shard;
  for (const Piece& tensor : flat.tensors) {
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

std::int64_t FullestRank(std::span<const FlatLayout* const> parameters) {
  if (parameters.empty()) return 0;
  STEPCAST_CHECK(
      std::all_of(parameters.begin(), parameters.end(),
                  [&](const FlatLayout* flat) { return flat->ranks == parameters.front()->ranks; }),
      "a rank is counted among as many in all layouts");
  // [rank] how many more tensors it has than the rank before.
  std::vector<std::int64_t> more(static_cast<std::size_t>(parameters.front()->ranks) + 1);
  for (const FlatLayout* flat : parameters) {
    for (const Piece& tensor : flat->tensors) {
      ++more[tensor.offset / flat->shard];
      --more[(tensor.offset + tensor.elements - 1) / flat->shard + 1];
    }
  }
  std::inclusive_scan(more.begin(), more.end(), more.begin());
  return std::max_element(more.begin(), more.end()) - more.begin();
}

std::vector<std::int64_t> FullestRanks(std::span<const FlatLayout* const> parameters) {
  std::map<std::int64_t, std::vector<const FlatLayout*>> by_ranks;
  for (const FlatLayout* flat : parameters) by_ranks[flat->ranks].push_back(flat);
  std::map<std::int64_t, std::int64_t> fullest;
  for (const auto& [ranks, own] : by_ranks) fullest[ranks] = FullestRank(own);
  std::vector<std::int64_t> result;
  result.reserve(parameters.size());
  for (const FlatLayout* flat : parameters) result.push_back(fullest[flat->ranks]);
  return result;
}

BlockLayout::BlockLayout(const model::Model& model, std::span<const int> tensors,
                         std::span<const std::int64_t> lengths, std::int64_t ranks)
    : ranks_(ranks) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t elements = model.tensors[tensors[i]].elements;
    if (elements > 0) Add(tensors[i], elements, lengths[i]);
  }
}

BlockLayout::BlockLayout(const model::Model& model, std::int64_t ranks) : ranks_(ranks) {
  blocks_.reserve(model.tensors.size());
  for (const model::Tensor& tensor : model.tensors) {
    Add(static_cast<int>(blocks_.size()), tensor.elements, ShardLength(tensor.elements, ranks));
  }
}

void BlockLayout::Add(int tensor, std::int64_t elements, std::int64_t length) {
  blocks_.push_back({.tensor = tensor,
                     .elements = elements,
                     .length = length,
                     .offset = shard_,
                     .full_offset = shard_ * ranks_,
                     .exact_offset = exact_});
  shard_ += length;
  exact_ += elements;
}

BlockLayout BlockLayout::Before(std::int64_t elements) const {
  BlockLayout other = *this;
  other.shard_ += elements;
  return other;
}

BlockLayout BlockLayout::Over(std::int64_t ranks) const {
  BlockLayout other = *this;
  other.ranks_ = ranks;
  other.shard_ = shard_ * ranks_ / ranks;
  for (Block& block : other.blocks_) {
    block.length = block.length * ranks_ / ranks;
    block.offset = block.offset * ranks_ / ranks;
  }
  return other;
}

Piece BlockLayout::Own(const Block& block, std::int64_t index) const {
  const std::int64_t first = index * block.length;
  return {.tensor = block.tensor,
          .first = first,
          .elements = std::clamp<std::int64_t>(block.elements - first, 0, block.length),
          .offset = block.offset};
}

}  // namespace stepcast::lowering
