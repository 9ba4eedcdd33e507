#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "src/lowering/gradients.h"

namespace stepcast::lowering {
namespace {

model::Model ListOf(const std::vector<std::vector<std::int64_t>>& layers) {
  model::LayerList list;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    list.layers.push_back({.name = "layer" + std::to_string(i),
                           .repeat = 1,
                           .parameters = layers[i],
                           .forward = Microseconds(1),
                           .backward = Microseconds(1),
                           .activation = Bytes(0)});
  }
  return model::Build("list", list);
}

std::vector<std::vector<int>> TensorsOf(const std::vector<Bucket>& buckets) {
  std::vector<std::vector<int>> tensors;
  for (const Bucket& bucket : buckets)
    tensors.emplace_back(bucket.tensors.begin(), bucket.tensors.end());
  return tensors;
}

// The worked example of the reducer's rule: sizes in MiB 0.5, 0.6, 20, 4, 3, 30, 1 with limits 1
// and 25. 0.5 + 0.6 reaches 1; 20 + 4 = 24 is below 25, + 3 closes; 30 closes alone; 1 is left.
TEST(Buckets, CloseWhenTheLimitIsReachedAfterAppending) {
  const std::int64_t mib = (1 << 20) / 4;  // FP32 elements
  const model::Model model =
      ListOf({{mib / 2, mib * 6 / 10, 20 * mib, 4 * mib, 3 * mib, 30 * mib, mib}});
  std::vector<int> order(7);
  std::iota(order.begin(), order.end(), 0);
  const auto buckets = AssignBuckets(model, order, 4, MiB(1), MiB(25));
  EXPECT_EQ(TensorsOf(buckets), (std::vector<std::vector<int>>{{0, 1}, {2, 3, 4}, {5}, {6}}));
  EXPECT_EQ(buckets[1].elements, 27 * mib);
}

TEST(Buckets, ZeroLimitMeansOneTensorEach) {
  const model::Model model = ListOf({{8, 16}, {32}});
  const std::vector<int> order{2, 1, 0};
  EXPECT_EQ(TensorsOf(AssignBuckets(model, order, 2, Bytes(0), Bytes(0))),
            (std::vector<std::vector<int>>{{2}, {1}, {0}}));
}

// Backward runs layers from last to first. The tensors of a layer are complete together, in reverse
// registration order.
TEST(GradientReadyOrder, IsReverseRegistrationForALayerList) {
  const model::Model model = ListOf({{1, 2}, {3}, {4, 5, 6}});
  const auto works = model::BuildWork(model, {});
  EXPECT_EQ(GradientReadyOrder(model, works, model::WorkOfLayers(model, {})),
            (std::vector<int>{5, 4, 3, 2, 1, 0}));
}

RC_GTEST_PROP(Buckets, EveryTensorOnceAndEveryBucketButTheLastFull,
              (const std::vector<std::uint16_t>& raw)) {
  RC_PRE(!raw.empty());
  std::vector<std::int64_t> sizes;
  for (const auto size : raw) sizes.push_back(size + 1);
  const model::Model model = ListOf({sizes});
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  const Bytes first(*rc::gen::inRange<std::int64_t>(0, 200'000));
  const Bytes limit(*rc::gen::inRange<std::int64_t>(0, 200'000));
  const auto buckets = AssignBuckets(model, order, 2, first, limit);
  std::vector<int> seen;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    std::int64_t elements = 0;
    for (const int tensor : buckets[b].tensors) {
      seen.push_back(tensor);
      elements += sizes[tensor];
    }
    RC_ASSERT(elements == buckets[b].elements);
    const Bytes cap = b == 0 ? first : limit;
    const Bytes last(2 * sizes[buckets[b].tensors.back()]);
    RC_ASSERT(b + 1 == buckets.size() || Bytes(2 * elements) >= cap);
    RC_ASSERT(Bytes(2 * elements) - last < cap || buckets[b].tensors.size() == 1);
  }
  RC_ASSERT(seen == order);
}

}  // namespace
}  // namespace stepcast::lowering
