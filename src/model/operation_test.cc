#include "src/model/operation.h"

#include <cstddef>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::model {
namespace {

// A list of a kernel that reads gathered value 0 and is the last to do so, before value 1 is
// gathered for the next layer.
TEST(LeftToTheNextKernel, IsWhatNoKernelOfTheListEnds) {
  const auto gather = [](int index) {
    const ValueId value{Lifetime::kCommunicated, index};
    Operation operation;
    operation.group.emplace();
    operation.group->collective = CollectiveKind::kAllGather;
    operation.group->target = {
        .value = value, .write = true, .parts = 4, .content = ValueUse::Content::kGathered};
    operation.begins = {value};
    return operation;
  };
  Operation kernel;
  kernel.ends = {{Lifetime::kCommunicated, 0}};
  const std::vector<Operation> list = {gather(0), kernel, gather(1)};
  const std::vector<ValueUse> left = LeftToTheNextKernel(list);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0], list[2].group->target);
  EXPECT_TRUE(LeftToTheNextKernel({gather(0), kernel}).empty());
}

// A turn ends after consecutive all-to-alls, and after the operations that were delayed until then.
TEST(TurnEnds, AreBehindExchangesOfRows) {
  const auto group = [](CollectiveKind kind, parallel::AxisSet axes) {
    Operation operation;
    operation.group.emplace();
    operation.group->collective = kind;
    operation.group->axes = axes;
    return operation;
  };
  const Operation rows = group(CollectiveKind::kAllToAll, parallel::Axis::kExpertOuter);
  const Operation counts = group(CollectiveKind::kAllGather, parallel::Axis::kExpertOuter);
  const Operation heads = group(CollectiveKind::kAllToAll, parallel::Axis::kContextInner);
  Operation kernel, delayed;
  delayed.delayed = true;
  using Ends = std::vector<std::size_t>;
  EXPECT_EQ(TurnEnds({}), Ends{0});
  EXPECT_EQ(TurnEnds({kernel, counts, heads, kernel}), Ends{4});
  EXPECT_EQ(TurnEnds({kernel, rows, rows, kernel, rows, delayed, kernel}), (Ends{3, 6, 7}));
  EXPECT_EQ(TurnEnds({kernel, rows}), Ends{2});
}

}  // namespace
}  // namespace stepcast::model
