#include "src/lowering/deepspeed_buckets.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <set>
#include <vector>

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

// 10 elements for 3 ranks: padded to 2 x 3 = 6, that is 12; 4 a rank.
TEST(FlatOrder, IsPaddedToTwoElementsARank) {
  const FlatOrder flat(ModelOf({5, 3, 2}), 3, false);
  EXPECT_EQ(flat.padded(), 12);
  EXPECT_EQ(flat.part(), 4);
  EXPECT_EQ(flat.offsets, (std::vector<std::int64_t>{0, 5, 8}));
}

// Parts [0, 4), [4, 8), [8, 12). The first is reached by tensor 0; the second by tensors 0 and 1,
// which are 8 elements whole; the third by tensor 2.
TEST(FlatOrder, ARankHoldsTensorsThatReachIntoItsPart) {
  const Holding holding = FlatOrder(ModelOf({5, 3, 2}), 3, false).LargestHolding();
  EXPECT_EQ(holding.tensors, 2);
  EXPECT_EQ(holding.elements, 8);
}

// Tensors 0 and 2, then 1 and 3.
TEST(FlatOrder, RoundRobinDealsTensorsOut) {
  const FlatOrder flat(ModelOf({1, 2, 3, 4}), 2, true);
  EXPECT_EQ(flat.tensors, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(flat.offsets, (std::vector<std::int64_t>{0, 4, 1, 6}));
}

// In the order 2, 1, 0 with 6 elements a bucket: 2 + 3 fit, 5 more do not. Owners, 4 elements each:
// tensor 2 is rank 2's; tensor 1, [5, 8), rank 1's: two runs. Tensor 0, [0, 5), rank 0's and 1's.
TEST(DeepSpeedBuckets, ATensorThatDoesNotFitOpensTheNext) {
  const model::Model model = ModelOf({5, 3, 2});
  const auto buckets = BucketsOf(model, std::vector<int>{2, 1, 0}, FlatOrder(model, 3, false), 6);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_EQ(buckets[0].tensors, (std::vector<int>{2, 1}));
  EXPECT_EQ(buckets[0].parts, 2);
  EXPECT_FALSE(buckets[0].extra_large);
  EXPECT_EQ(buckets[1].tensors, std::vector<int>{0});
  EXPECT_EQ(buckets[1].parts, 2);
}

// A limit of 4: the tensor of 5 stands alone, and 3 + 2 do not fit together.
TEST(DeepSpeedBuckets, ALargerTensorStandsAlone) {
  const model::Model model = ModelOf({5, 3, 2});
  const auto buckets = BucketsOf(model, std::vector<int>{0, 1, 2}, FlatOrder(model, 1, false), 4);
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_TRUE(buckets[0].extra_large);
  EXPECT_FALSE(buckets[1].extra_large);
  EXPECT_EQ(buckets[0].parts, 1);
}

RC_GTEST_PROP(DeepSpeedBucketLaws, EveryTensorOnceAndNoBucketBeyondItsLimit, ()) {
  std::vector<std::int64_t> sizes;
  const int count = *rc::gen::inRange(1, 20);
  for (int i = 0; i < count; ++i) sizes.push_back(*rc::gen::inRange(1, 100));
  const model::Model model = ModelOf(sizes);
  const std::int64_t ranks = *rc::gen::inRange(1, 9);
  const std::int64_t limit = *rc::gen::inRange(0, 200);
  const FlatOrder flat(model, ranks, *rc::gen::arbitrary<bool>());
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::set<int> seen;
  for (const DeepSpeedBucket& bucket : BucketsOf(model, order, flat, limit)) {
    for (const int tensor : bucket.tensors) RC_ASSERT(seen.insert(tensor).second);
    RC_ASSERT(bucket.elements <= limit || bucket.tensors.size() == 1);
    RC_ASSERT(bucket.extra_large == (bucket.elements > limit));
    RC_ASSERT(bucket.parts >= 1);
  }
  RC_ASSERT(seen.size() == sizes.size());
  // Parts cover the model, and each rank's holding covers its part.
  const std::int64_t all = model.parameter_count();
  RC_ASSERT(flat.padded() >= all);
  RC_ASSERT(flat.padded() < all + 2 * ranks);
  RC_ASSERT(flat.LargestHolding().elements >= std::min(all, flat.part()));
}

}  // namespace
}  // namespace stepcast::lowering
