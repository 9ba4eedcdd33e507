// The expected values of the collective check; the check itself runs when a device is made.
#include <gtest/gtest.h>

#include <vector>

#include "src/runtime/cuda/communicators.h"

namespace stepcast::runtime::cuda {
namespace {

program::Collective Of(CollectiveKind kind, bool average = false) {
  return {.kind = kind, .communicator = 0, .average = average};
}

// Group rank r gives (i + r) mod 3 - 1: with three ranks every element is -1, 0 and 1 once.
TEST(CheckedTarget, SumsOfThreeRanksAreZero) {
  for (const float value : CheckedTarget(Of(CollectiveKind::kAllReduce), 0, 3)) {
    ASSERT_EQ(value, 0.0f);
  }
}

TEST(CheckedTarget, AveragesAreSumsOverRanks) {
  // Two ranks: elements 0, 1, 2 are -1 + 0, 0 + 1 and 1 - 1.
  const std::vector<float> sums = CheckedTarget(Of(CollectiveKind::kAllReduce), 0, 2);
  EXPECT_EQ(sums[0], -1.0f);
  EXPECT_EQ(sums[1], 1.0f);
  EXPECT_EQ(sums[2], 0.0f);
  EXPECT_EQ(CheckedTarget(Of(CollectiveKind::kAllReduce, true), 0, 2)[1], 0.5f);
}

TEST(CheckedTarget, APartOfTheSumForEachRank) {
  const std::vector<float> whole = CheckedTarget(Of(CollectiveKind::kAllReduce), 0, 4);
  for (int member = 0; member < 4; ++member) {
    const std::vector<float> part = CheckedTarget(Of(CollectiveKind::kReduceScatter), member, 4);
    ASSERT_EQ(part.size() * 4, whole.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      ASSERT_EQ(part[i], whole[static_cast<std::size_t>(member) * part.size() + i]);
    }
  }
}

TEST(CheckedTarget, GatheredPartsStandInGroupOrder) {
  const std::vector<float> whole = CheckedTarget(Of(CollectiveKind::kAllGather), 1, 2);
  std::vector<float> expected = CheckedSource(Of(CollectiveKind::kAllGather), 0, 2);
  const std::vector<float> second = CheckedSource(Of(CollectiveKind::kAllGather), 1, 2);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(whole, expected);
}

TEST(CheckedTarget, ABroadcastIsTheFirstRanks) {
  EXPECT_EQ(CheckedTarget(Of(CollectiveKind::kBroadcast), 2, 3),
            CheckedSource(Of(CollectiveKind::kBroadcast), 0, 3));
}

// Parts have space for 1,000 elements. If the first of two ranks receives 1.5 times the mean, each
// part for the second holds a third of that.
TEST(CheckedTarget, RowsOfUnevenLoadsAreAsManyAsAreSent) {
  program::Collective rows = Of(CollectiveKind::kAllToAll);
  rows.loads = AllToAllLoads::Of(1.5, 2, AllToAllLoads::First::kReceivesMost);
  const std::vector<float> source = CheckedSource(rows, 1, 2);
  EXPECT_EQ(CheckedTarget(rows, 0, 2), source);
  std::vector<float> third = CheckedSource(rows, 0, 2);
  for (std::size_t i = 333; i < third.size(); ++i) third[i] = 0;
  EXPECT_EQ(CheckedTarget(rows, 1, 2), third);
}

TEST(Widened, IsTheInverseOfNarrowedForWhatATypeHolds) {
  const std::vector<float> numbers = {0.0f, -1.0f, 0.5f, 240.0f, -0.0078125f};
  for (const DataType type : {DataType::kFp32, DataType::kBf16, DataType::kFp16}) {
    EXPECT_EQ(Widened(Narrowed(numbers, type), type), numbers);
  }
}

}  // namespace
}  // namespace stepcast::runtime::cuda
