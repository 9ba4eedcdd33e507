#include "src/lowering/block_layout.h"

#include <algorithm>
#include <cstddef>

namespace stepcast::lowering {

BlockLayout::BlockLayout(const model::Model& model, std::span<const int> tensors,
                         std::span<const std::int64_t> lengths, std::int64_t ranks)
    : ranks_(ranks) {
  std::int64_t exact = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t elements = model.tensors[tensors[i]].elements;
    if (elements == 0) continue;
    blocks_.push_back({.tensor = tensors[i],
                       .elements = elements,
                       .length = lengths[i],
                       .offset = shard_,
                       .full_offset = shard_ * ranks,
                       .exact_offset = exact});
    shard_ += lengths[i];
    exact += elements;
  }
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
