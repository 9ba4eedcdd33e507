#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
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

std::vector<int> AllOf(const model::Model& model) {
  std::vector<int> tensors(model.tensors.size());
  std::iota(tensors.begin(), tensors.end(), 0);
  return tensors;
}

// 5 + 3 + 9 = 17 elements on 4 ranks: shards of 5, with 3 elements of padding after the last.
TEST(FlatLayout, IsCutIntoEqualShards) {
  const model::Model model = ModelOf({5, 3, 9});
  const FlatLayout flat = Flatten(model, AllOf(model), 4, 0);
  EXPECT_EQ(flat.exact, 17);
  EXPECT_EQ(flat.elements, 17);
  EXPECT_EQ(flat.shard, 5);
  EXPECT_EQ(flat.padded(), 20);
  // The second shard is elements 5 to 9: all of the second tensor, two of the third.
  const Pieces parts = PartsOf(flat, 1);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].tensor, 1);
  EXPECT_EQ(parts[0].elements, 3);
  EXPECT_EQ(parts[0].offset, 0);
  EXPECT_EQ(parts[1].tensor, 2);
  EXPECT_EQ(parts[1].first, 0);
  EXPECT_EQ(parts[1].elements, 2);
  EXPECT_EQ(parts[1].offset, 3);
}

// 20 elements on 4 ranks, shards of 5: tensors of 8, 1, 1, 1 and 9. The second rank has the end of
// the first tensor, 1 and 1; the third has 1 and a part of 9. With two such units it is still the
// second.
TEST(FlatLayout, KnowsWhichRankHasTheMostTensors) {
  const model::Model model = ModelOf({8, 1, 1, 1, 9});
  const FlatLayout flat = Flatten(model, AllOf(model), 4, 0);
  EXPECT_EQ(PartsOf(flat, 1).size(), 3u);
  EXPECT_EQ(PartsOf(flat, 2).size(), 2u);
  const std::vector<const FlatLayout*> one = {&flat}, two = {&flat, &flat};
  EXPECT_EQ(FullestRank(one), 1);
  EXPECT_EQ(FullestRank(two), 1);
  EXPECT_EQ(FullestRank({}), 0);
}

// Experts are divided among fewer ranks, and the fullest is one of these.
TEST(FlatLayout, KnowsTheFullestOfEachNumberOfRanks) {
  const model::Model model = ModelOf({8, 1, 1, 1, 9});
  const FlatLayout of_two = Flatten(model, AllOf(model), 2, 0);
  const FlatLayout of_four = Flatten(model, AllOf(model), 4, 0);
  const std::vector<const FlatLayout*> both = {&of_two, &of_four, &of_two};
  EXPECT_EQ(FullestRanks(both), (std::vector<std::int64_t>{0, 1, 0}));
}

// Aligned to 8 elements (16 B of bf16), the tensors begin at 0, 8 and 16 and end at 25, padded to
// 28 for 4 ranks: shards of 7, and no further padding.
TEST(FlatLayout, IsAlignedAndFilledUp) {
  const model::Model model = ModelOf({5, 3, 9});
  const FlatLayout flat = Flatten(model, AllOf(model), 4, 8);
  EXPECT_EQ(flat.exact, 17);
  EXPECT_EQ(flat.tensors[1].offset, 8);
  EXPECT_EQ(flat.tensors[2].offset, 16);
  EXPECT_EQ(flat.elements, 28);
  EXPECT_EQ(flat.shard, 7);
  EXPECT_EQ(flat.padded(), 28);
}

RC_GTEST_PROP(FlatLayout, EveryElementIsInOneShard, ()) {
  const auto sizes =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 50));
  const model::Model model = ModelOf(sizes);
  const std::int64_t ranks = *rc::gen::inRange(1, 20);
  const FlatLayout flat = Flatten(model, AllOf(model), ranks, *rc::gen::element(0, 4, 8));
  std::vector<std::vector<int>> owners;
  for (const std::int64_t size : sizes) owners.emplace_back(size, 0);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::int64_t end = 0;
    for (const Piece& part : PartsOf(flat, rank)) {
      RC_ASSERT(part.offset >= end);
      end = part.offset + part.elements;
      for (std::int64_t i = 0; i < part.elements; ++i) ++owners[part.tensor][part.first + i];
    }
    RC_ASSERT(end <= flat.shard);
  }
  for (const auto& tensor : owners) {
    RC_ASSERT(std::all_of(tensor.begin(), tensor.end(), [](int count) { return count == 1; }));
  }
}

RC_GTEST_PROP(FlatParameterProperty, NoRankHasPartsOfMoreTensorsThanTheFullest, ()) {
  const auto elements = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 40)));
  const model::Model model = ModelOf(elements);
  const auto ranks = *rc::gen::inRange<std::int64_t>(1, 9);
  const FlatLayout flat =
      Flatten(model, AllOf(model), ranks, *rc::gen::elementOf(std::vector<int>{0, 8}));
  RC_PRE(flat.elements > 0);
  const std::vector<const FlatLayout*> one = {&flat};
  const std::int64_t fullest = FullestRank(one);
  RC_ASSERT(fullest >= 0);
  RC_ASSERT(fullest < ranks);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::size_t parts = PartsOf(flat, rank).size(), most = PartsOf(flat, fullest).size();
    RC_ASSERT((rank < fullest ? parts < most : parts <= most));
  }
}

}  // namespace
}  // namespace stepcast::lowering
