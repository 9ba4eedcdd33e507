#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "src/lowering/deepspeed_parts.h"
#include "src/model/model.h"

namespace stepcast::lowering {
namespace {

model::Model ModelOf(const std::vector<std::int64_t>& sizes) {
  model::LayerList list;
  list.layers.push_back({.name = "layer",
                         .repeat = 1,
                         .parameters = sizes,
                         .forward = Time(),
                         .backward = Time(),
                         .activation = Bytes(0)});
  return model::Build("list", list);
}

FlatLayout LayoutOf(const std::vector<std::int64_t>& sizes, std::int64_t ranks, bool round_robin) {
  std::vector<int> all(sizes.size());
  std::iota(all.begin(), all.end(), 0);
  return DeepSpeedLayout(ModelOf(sizes), all, ranks, round_robin);
}

// All parameters are divided among the same ranks.
FlatGroups Dense(const model::Model& model, std::int64_t ranks) {
  return {model, {ranks, 1}, false, false};
}

// 10 elements for 3 ranks: padded to 2 x 3 = 6, that is 12; 4 a rank.
TEST(DeepSpeedLayout, IsPaddedToTwoElementsARank) {
  const FlatLayout flat = LayoutOf({5, 3, 2}, 3, false);
  EXPECT_EQ(flat.padded(), 12);
  EXPECT_EQ(flat.shard, 4);
  ASSERT_EQ(flat.tensors.size(), 3U);
  EXPECT_EQ(flat.tensors[1].offset, 5);
  EXPECT_EQ(flat.tensors[2].offset, 8);
}

// Parts [0, 4), [4, 8), [8, 12). Tensor 0 overlaps the first part; tensors 0 and 1, together 8
// elements, the second; tensor 2 the third.
TEST(DeepSpeedLayout, ARankHoldsTensorsThatReachIntoItsPart) {
  const Holding holding = LargestHolding(LayoutOf({5, 3, 2}, 3, false));
  EXPECT_EQ(holding.tensors, 2);
  EXPECT_EQ(holding.elements, 8);
}

// Tensors 0 and 2, then 1 and 3.
TEST(DeepSpeedLayout, RoundRobinDealsTensorsOut) {
  std::vector<int> order;
  std::vector<std::int64_t> offsets;
  for (const Piece& piece : LayoutOf({1, 2, 3, 4}, 2, true).tensors) {
    order.push_back(piece.tensor);
    offsets.push_back(piece.offset);
  }
  EXPECT_EQ(order, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 1, 4, 6}));
}

// In the order 2, 1, 0 with 6 elements per bucket: 2 + 3 fit, 5 more do not. Parts have 4 elements:
// rank 2 owns tensor 2; rank 1 owns tensor 1, [5, 8): two runs. Ranks 0 and 1 own tensor 0, [0, 5).
TEST(DeepSpeedBuckets, ATensorThatDoesNotFitOpensTheNext) {
  const model::Model model = ModelOf({5, 3, 2});
  const auto buckets = BucketsOf(model, std::vector<int>{2, 1, 0}, Dense(model, 3), 6);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_EQ(buckets[0].tensors, (std::vector<int>{2, 1}));
  EXPECT_EQ(buckets[0].shares[0].parts, 2);
  EXPECT_FALSE(buckets[0].extra_large);
  EXPECT_EQ(buckets[1].tensors, std::vector<int>{0});
  EXPECT_EQ(buckets[1].shares[0].parts, 2);
}

// Tensors 1 and 3 are experts', divided among two ranks: 8 elements in parts of 4. The others' 6
// elements are divided among four ranks in parts of 2. All four tensors are in one bucket. Of the
// dense tensors, ranks 0 and 1 own tensor 0 and rank 2 tensor 2: three runs. Of the experts', rank
// 0 owns tensor 1 and then, after tensor 2, ranks 0 and 1 own tensor 3: three runs.
TEST(DeepSpeedBuckets, ExpertsAreReducedByTheirOwnRanks) {
  model::Model model = ModelOf({4, 3, 2, 5});
  model.tensors[1].group = model.tensors[3].group = model::ParameterGroup::kExperts;
  const FlatGroups groups(model, {4, 2}, true, false);
  ASSERT_EQ(groups.all().size(), 2U);
  ASSERT_EQ(groups.all()[1].flat.tensors.size(), 2U);
  EXPECT_EQ(groups.all()[1].flat.tensors[0].tensor, 1);
  EXPECT_EQ(groups.all()[1].flat.tensors[1].tensor, 3);
  EXPECT_EQ(groups.all()[1].flat.shard, 4);
  EXPECT_EQ(groups.group_of(3), 1U);
  const auto buckets = BucketsOf(model, std::vector<int>{0, 1, 2, 3}, groups, 100);
  ASSERT_EQ(buckets.size(), 1U);
  const auto& [dense, experts] = buckets[0].shares;
  EXPECT_EQ(dense.elements, 6);
  EXPECT_EQ(dense.first, 0);
  EXPECT_EQ(dense.parts, 3);
  EXPECT_EQ(experts.elements, 8);
  EXPECT_EQ(experts.first, 4);
  EXPECT_EQ(experts.parts, 3);
}

// At most 178,956,971 elements, unless a single tensor is larger: 100 and 70 million form a group,
// then 200, then 60.
TEST(DeepSpeedBuckets, GroupsOfExpertsHaveALargestSize) {
  constexpr std::int64_t kMillion = 1'000'000;
  model::Model model = ModelOf({100 * kMillion, 70 * kMillion, 200 * kMillion, 60 * kMillion, 8});
  for (int tensor = 0; tensor < 4; ++tensor) {
    model.tensors[tensor].group = model::ParameterGroup::kExperts;
  }
  const FlatGroups groups(model, {8, 1}, true, false);
  ASSERT_EQ(groups.all().size(), 4U);
  EXPECT_EQ(groups.all()[0].flat.tensors.front().tensor, 4);
  EXPECT_EQ(groups.all()[1].flat.exact, 170 * kMillion);
  EXPECT_EQ(groups.all()[2].flat.exact, 200 * kMillion);
  EXPECT_EQ(groups.all()[3].flat.exact, 60 * kMillion);
  EXPECT_EQ(FlatGroups(model, {8, 8}, false, false).all().size(), 1U);
}

// A limit of 4: the tensor of 5 stands alone, and 3 + 2 do not fit together.
TEST(DeepSpeedBuckets, ALargerTensorStandsAlone) {
  const model::Model model = ModelOf({5, 3, 2});
  const auto buckets = BucketsOf(model, std::vector<int>{0, 1, 2}, Dense(model, 1), 4);
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_TRUE(buckets[0].extra_large);
  EXPECT_FALSE(buckets[1].extra_large);
  EXPECT_EQ(buckets[0].shares[0].parts, 1);
}

RC_GTEST_PROP(DeepSpeedBucketLaws, EveryTensorOnceAndNoBucketBeyondItsLimit, ()) {
  std::vector<std::int64_t> sizes;
  const int count = *rc::gen::inRange(1, 20);
  for (int i = 0; i < count; ++i) sizes.push_back(*rc::gen::inRange(1, 100));
  const model::Model model = ModelOf(sizes);
  const std::int64_t ranks = *rc::gen::inRange(1, 9);
  const std::int64_t limit = *rc::gen::inRange(0, 200);
  const FlatGroups groups(model, {ranks, 1}, false, *rc::gen::arbitrary<bool>());
  const FlatLayout& flat = groups.all().front().flat;
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::set<int> seen;
  for (const DeepSpeedBucket& bucket : BucketsOf(model, order, groups, limit)) {
    for (const int tensor : bucket.tensors) RC_ASSERT(seen.insert(tensor).second);
    RC_ASSERT(bucket.elements <= limit || bucket.tensors.size() == 1);
    RC_ASSERT(bucket.extra_large == (bucket.elements > limit));
    RC_ASSERT(bucket.shares[0].parts >= 1);
    RC_ASSERT(bucket.shares[0].elements == bucket.elements);
  }
  RC_ASSERT(seen.size() == sizes.size());
  // Parts cover the model, and each rank's holding covers its part.
  const std::int64_t all = model.parameter_count();
  RC_ASSERT(flat.padded() >= all);
  RC_ASSERT(flat.padded() < all + 2 * ranks);
  RC_ASSERT(LargestHolding(flat).elements >= std::min(all, flat.shard));
}

}  // namespace
}  // namespace stepcast::lowering
