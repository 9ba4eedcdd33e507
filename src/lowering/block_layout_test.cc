#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "src/lowering/layouts.h"

namespace stepcast::lowering {
namespace {

model::Model ModelOf(const std::vector<std::int64_t>& elements) {
  model::Model model;
  for (const std::int64_t count : elements) {
    model.tensors.push_back({.name = "t", .shape = {count}, .elements = count});
  }
  return model;
}

BlockLayout LayoutOf(const std::vector<std::int64_t>& elements, std::int64_t ranks) {
  std::vector<int> tensors(elements.size());
  std::iota(tensors.begin(), tensors.end(), 0);
  std::vector<std::int64_t> lengths;
  for (const std::int64_t count : elements) lengths.push_back((count + ranks - 1) / ranks);
  return BlockLayout(ModelOf(elements), tensors, lengths, ranks);
}

// 5 and 3 elements on 2 ranks: blocks of 3 and 2, of which the second rank has 2 and 1. An empty
// tensor has no block.
TEST(BlockLayout, CutsTensorsOneByOne) {
  const BlockLayout layout = LayoutOf({5, 0, 3}, 2);
  ASSERT_EQ(layout.blocks().size(), 2u);
  EXPECT_EQ(layout.shard(), 5);
  const BlockLayout::Block& second = layout.blocks()[1];
  EXPECT_EQ(second.tensor, 2);
  EXPECT_EQ(second.offset, 3);
  EXPECT_EQ(second.full_offset, 6);
  EXPECT_EQ(second.exact_offset, 5);
  const Piece own = layout.Own(second, 1);
  EXPECT_EQ(own.first, 2);
  EXPECT_EQ(own.elements, 1);
  EXPECT_EQ(own.offset, 3);
}

// The parts that ranks hold of a tensor make up the tensor, for every number of ranks that divides
// the first one's: padding moves nothing.
RC_GTEST_PROP(BlockLayout, RanksHoldEveryElementOnce, ()) {
  const auto elements =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(0, 50)));
  const std::int64_t over = *rc::gen::inRange(1, 5);
  const std::int64_t ranks = over * *rc::gen::inRange(1, 4);
  const BlockLayout layout = LayoutOf(elements, ranks);
  const BlockLayout fewer = layout.Over(over);
  RC_ASSERT(fewer.shard() * over == layout.shard() * ranks);
  for (const auto& [cut, count] : {std::pair(&layout, ranks), std::pair(&fewer, over)}) {
    for (const BlockLayout::Block& block : cut->blocks()) {
      std::int64_t next = 0;
      for (std::int64_t rank = 0; rank < count; ++rank) {
        const Piece own = cut->Own(block, rank);
        RC_ASSERT(own.elements >= 0);
        if (own.elements > 0) RC_ASSERT(own.first == next);
        next += own.elements;
      }
      RC_ASSERT(next == block.elements);
    }
  }
}

}  // namespace
}  // namespace stepcast::lowering
