#include "src/parallel/rank_grid.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::parallel {
namespace {

constexpr Axis kAll[] = {Axis::kTensor,      Axis::kContextInner, Axis::kContextOuter,
                         Axis::kExpertInner, Axis::kShard,        Axis::kReplica,
                         Axis::kPipeline};

// Any order of some axes, with degrees of 1 to 4.
RankGrid AnyGrid() {
  std::vector<Axis> axes(std::begin(kAll), std::end(kAll));
  std::vector<RankGrid::Dimension> dimensions;
  const auto count = *rc::gen::inRange<std::size_t>(0, axes.size() + 1);
  while (dimensions.size() < count) {
    const auto at = *rc::gen::inRange<std::size_t>(0, axes.size());
    dimensions.push_back({axes[at], *rc::gen::inRange(1, 5)});
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return RankGrid(dimensions);
}

AxisSet AnyAxes() {
  AxisSet axes;
  for (const Axis axis : kAll) {
    if (*rc::gen::arbitrary<bool>()) axes = axes | axis;
  }
  return axes;
}

RC_GTEST_PROP(RankGridTest, RankOfCoordinatesOfARankIsTheRank, ()) {
  const RankGrid grid = AnyGrid();
  for (int rank = 0; rank < grid.ranks(); ++rank) RC_ASSERT(grid.Rank(grid.At(rank)) == rank);
}

RC_GTEST_PROP(RankGridTest, DegreesMultiplyToTheRanks, ()) {
  const RankGrid grid = AnyGrid();
  int product = 1;
  AxisSet all;
  for (const Axis axis : kAll) {
    product *= grid.Degree(axis);
    all = all | axis;
  }
  RC_ASSERT(product == grid.ranks());
  RC_ASSERT(grid.Degree(all) == grid.ranks());
}

RC_GTEST_PROP(RankGridTest, GroupsPartitionTheRanks, ()) {
  const RankGrid grid = AnyGrid();
  const AxisSet axes = AnyAxes();
  const GroupLayout layout = grid.Layout(axes);
  RC_ASSERT(layout.size() == grid.Degree(axes));
  RC_ASSERT(layout.groups() * layout.size() == grid.ranks());
  std::vector<int> seen;
  for (const std::vector<int>& group : layout.Groups()) {
    RC_ASSERT(static_cast<int>(group.size()) == layout.size());
    RC_ASSERT(std::is_sorted(group.begin(), group.end()));
    seen.insert(seen.end(), group.begin(), group.end());
  }
  std::sort(seen.begin(), seen.end());
  std::vector<int> all(static_cast<std::size_t>(grid.ranks()));
  std::iota(all.begin(), all.end(), 0);
  RC_ASSERT(seen == all);
}

// The definition: the ranks whose coordinates along other axes are the same.
RC_GTEST_PROP(RankGridTest, AGroupDiffersAlongItsAxesAlone, ()) {
  const RankGrid grid = AnyGrid();
  const AxisSet axes = AnyAxes();
  const int rank = *rc::gen::inRange(0, grid.ranks());
  const RankGrid::Coordinates own = grid.At(rank);
  std::vector<int> expected;
  for (int other = 0; other < grid.ranks(); ++other) {
    const RankGrid::Coordinates at = grid.At(other);
    const bool same = std::all_of(std::begin(kAll), std::end(kAll), [&](Axis axis) {
      const auto place = static_cast<std::size_t>(axis);
      return axes.Has(axis) || at[place] == own[place];
    });
    if (same) expected.push_back(other);
  }
  const std::vector<int> group = grid.Group(rank, axes);
  RC_ASSERT(group == expected);
  const GroupLayout layout = grid.Layout(axes);
  RC_ASSERT(layout.First(rank) == group.front());
  RC_ASSERT(group[static_cast<std::size_t>(layout.Index(rank))] == rank);
}

RC_GTEST_PROP(RankGridTest, FactoringAnAxisLeavesItsGroups, ()) {
  const int inner = *rc::gen::inRange(1, 5);
  const int outer = *rc::gen::inRange(1, 5);
  const int tensor = *rc::gen::inRange(1, 4);
  const int replica = *rc::gen::inRange(1, 4);
  const RankGrid factored({{Axis::kTensor, tensor},
                           {Axis::kContextInner, inner},
                           {Axis::kContextOuter, outer},
                           {Axis::kReplica, replica}});
  const RankGrid whole(
      {{Axis::kTensor, tensor}, {Axis::kContextOuter, inner * outer}, {Axis::kReplica, replica}});
  RC_ASSERT(factored.Layout(kContext) == whole.Layout(kContext));
  RC_ASSERT(factored.Layout(kGradients) == whole.Layout(kGradients));
  RC_ASSERT(factored.Layout(Axis::kReplica) == whole.Layout(Axis::kReplica));
}

// The two grids of a plan with experts: each rank has its coordinates in both, pipeline groups are
// the same ranks, and the degrees of each multiply to all ranks.
RC_GTEST_PROP(GridsTest, ExpertsFoldTheRanksOfAPipelineStage, ()) {
  const auto degree = [](int most) { return *rc::gen::inRange(1, most); };
  const int expert_tensor = degree(4), expert = degree(5), expert_data = degree(4);
  const int pipeline = degree(4);
  const int of_stage = expert_tensor * expert * expert_data;
  std::vector<int> divisors;
  for (int divisor = 1; divisor <= of_stage; ++divisor) {
    if (of_stage % divisor == 0) divisors.push_back(divisor);
  }
  const int tensor = *rc::gen::elementOf(divisors);
  const Grids grids(RankGrid({{Axis::kTensor, tensor},
                              {Axis::kShard, of_stage / tensor},
                              {Axis::kPipeline, pipeline}}),
                    RankGrid({{Axis::kExpertTensor, expert_tensor},
                              {Axis::kExpertInner, expert},
                              {Axis::kExpertShard, expert_data},
                              {Axis::kPipeline, pipeline}}));
  RC_ASSERT(grids.dense().Layout(Axis::kPipeline) == grids.expert().Layout(Axis::kPipeline));
  RC_ASSERT(grids.Degree(kExpertAxes) * grids.Degree(Axis::kPipeline) == grids.ranks());
  for (int rank = 0; rank < grids.ranks(); ++rank) {
    RC_ASSERT(grids.dense().Rank(grids.dense().At(rank)) == rank);
    RC_ASSERT(grids.expert().Rank(grids.expert().At(rank)) == rank);
    const RankGrid::Coordinates at = grids.At(rank);
    RC_ASSERT(grids.dense().Rank(at) == rank);
    RC_ASSERT(grids.expert().Rank(at) == rank);
  }
  // Groups along axes of either grid partition the ranks.
  for (const AxisSet axes : {kExpert, AxisSet(Axis::kTensor), kExpertData, kStates}) {
    std::vector<int> seen;
    for (const std::vector<int>& group : grids.Layout(axes).Groups()) {
      seen.insert(seen.end(), group.begin(), group.end());
    }
    std::sort(seen.begin(), seen.end());
    for (int rank = 0; rank < grids.ranks(); ++rank) {
      RC_ASSERT(seen[static_cast<std::size_t>(rank)] == rank);
    }
  }
}

TEST(RankGridTest, HybridShardingOfEightRanks) {
  const RankGrid grid({{Axis::kShard, 4}, {Axis::kReplica, 2}});
  EXPECT_EQ(grid.Group(5, Axis::kShard), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(grid.Group(5, Axis::kReplica), (std::vector<int>{1, 5}));
  EXPECT_EQ(grid.Group(5, kData), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(grid.Group(5, Axis::kTensor), (std::vector<int>{5}));
}

// Two groups of 6 ranks at a distance of 2, and groups of 8 in two dimensions.
TEST(GroupLayoutTest, GroupsDivideIntoRunsOfConsecutivePositions) {
  const GroupLayout line(12, {{2, 6}});
  EXPECT_EQ(line.Runs(2).Ranks(6), (std::vector<int>{4, 6}));
  EXPECT_EQ(line.AcrossRuns(2).Ranks(6), (std::vector<int>{2, 6, 10}));
  EXPECT_EQ(line.Runs(6), line);
  EXPECT_EQ(line.AcrossRuns(1), line);
  EXPECT_EQ(line.Runs(1).size(), 1);
  const GroupLayout plane(16, {{1, 2}, {4, 4}});
  EXPECT_EQ(plane.Runs(4).Ranks(0), (std::vector<int>{0, 1, 4, 5}));
  EXPECT_EQ(plane.AcrossRuns(4).Ranks(5), (std::vector<int>{5, 13}));
}

TEST(GroupLayoutTest, DimensionsThatContinueOneAnotherAreMerged) {
  const GroupLayout layout(24, {{1, 2}, {2, 3}, {6, 1}, {12, 2}});
  ASSERT_EQ(layout.dimensions().size(), 2U);
  EXPECT_EQ(layout.dimensions()[0], (GroupLayout::Dimension{1, 6}));
  EXPECT_EQ(layout.dimensions()[1], (GroupLayout::Dimension{12, 2}));
  EXPECT_EQ(layout.Ranks(7), (std::vector<int>{6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23}));
}

TEST(GroupLayoutTest, TheEmptyLayoutHasNoSiblings) {
  const GroupLayout layout;
  EXPECT_TRUE(layout.empty());
  EXPECT_EQ(layout.groups(), 0);
  EXPECT_TRUE(layout.Groups().empty());
}

}  // namespace
}  // namespace stepcast::parallel
