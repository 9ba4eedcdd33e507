#include "src/model/operation.h"

#include <vector>

#include "gtest/gtest.h"

namespace stepcast::model {
namespace {

// A list of a kernel that reads gathered value 0 and is the last to do so, before value 1 is
// gathered for the next layer.
TEST(LeftToTheNextKernel, IsWhatNoKernelOfTheListEnds) {
  const auto gather = [](int value) {
    Operation operation;
    operation.group.emplace();
    operation.group->collective = CollectiveKind::kAllGather;
    operation.group->target = {.table = ValueUse::Table::kCommunicated,
                               .index = value,
                               .write = true,
                               .parts = 4,
                               .content = ValueUse::Content::kGathered};
    operation.begins = {value};
    return operation;
  };
  Operation kernel;
  kernel.ends = {0};
  const std::vector<Operation> list = {gather(0), kernel, gather(1)};
  const std::vector<ValueUse> left = LeftToTheNextKernel(list);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0], list[2].group->target);
  EXPECT_TRUE(LeftToTheNextKernel({gather(0), kernel}).empty());
}

}  // namespace
}  // namespace stepcast::model
