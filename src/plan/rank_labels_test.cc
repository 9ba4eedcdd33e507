
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/axis.h"
#include "src/parallel/group_layout.h"
#include "src/parallel/rank_classes.h"
#include "src/parallel/rank_grid.h"
#include "src/plan/plan.h"
#include "src/plan/rank_grid.h"

namespace stepcast::plan {
namespace {

using parallel::Axis;

Plan AnyPlan() {
  Plan plan;
  Parallelism& axes = plan.parallelism;
  const auto degree = [] { return std::int64_t{1} << *rc::gen::inRange(0, 3); };
  axes.tensor = degree();
  axes.context = degree();
  axes.pipeline = *rc::gen::inRange(1, 5);
  const std::int64_t shard = degree();
  axes.data = shard * degree();
  plan.data_parallel.shard_group_size = shard;
  axes.expert_tensor = axes.tensor;
  axes.expert = shard;
  return plan;
}

// The groups along each axis, along all axes but the pipeline, and of its first and last ranks.
std::vector<parallel::GroupLayout> LayoutsOf(const Plan& plan) {
  const parallel::Grids grids = GridsOf(plan);
  std::vector<parallel::GroupLayout> layouts;
  for (int axis = 0; axis < parallel::kAxes; ++axis) {
    layouts.push_back(grids.Layout(static_cast<Axis>(axis)));
  }
  layouts.push_back(grids.Layout(parallel::kGradients));
  layouts.push_back(grids.Layout(Axis::kTensor | parallel::kGradients));
  const parallel::GroupLayout pipeline = grids.Layout(Axis::kPipeline);
  layouts.push_back(pipeline.Only({0, pipeline.size() - 1}));
  return layouts;
}

TEST(RankLabels, AStageIsALabel) {
  Plan plan;
  plan.parallelism.tensor = 2;
  plan.parallelism.pipeline = 2;
  plan.parallelism.data = 2;
  plan.parallelism.expert_tensor = 2;
  plan.data_parallel.shard_group_size = 2;
  const RankLabels labels(plan);
  ASSERT_EQ(labels.distinct().size(), 2U);
  EXPECT_EQ(labels.distinct()[1].stage, 1);
  EXPECT_EQ(labels.FirstRank(1), 4);
  EXPECT_EQ(labels.Ranks(1), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(labels.Of(3), 0U);
}

// Without differences of devices and links, only labels distinguish ranks, and the first rank of
// each label is in the first of the equivalent groups.
RC_GTEST_PROP(RankLabels, AColouringFindsTheLabels, ()) {
  const Plan plan = AnyPlan();
  const RankLabels labels(plan);
  const std::vector<parallel::GroupLayout> layouts = LayoutsOf(plan);
  std::vector<std::int64_t> of_ranks;
  for (int rank = 0; rank < GridsOf(plan).ranks(); ++rank) {
    of_ranks.push_back(static_cast<std::int64_t>(labels.Of(rank)));
  }
  const parallel::Classes classes =
      parallel::ClassesOf(of_ranks, parallel::GroupMeetings(layouts), {});
  RC_ASSERT(classes.ranks.size() == labels.distinct().size());
  for (std::size_t label = 0; label < classes.ranks.size(); ++label) {
    const int first = labels.FirstRank(label);
    RC_ASSERT(classes.ranks[label] == labels.Ranks(label));
    RC_ASSERT(first == classes.ranks[label].front());
    std::size_t meeting = 0;
    for (const parallel::GroupLayout& layout : layouts) {
      const std::vector<std::vector<int>> groups = layout.Groups();
      const auto own = layout.Holds(first) ? layout.Ranks(first) : std::vector<int>();
      int colour = -1;
      for (std::size_t i = 0; i < groups.size(); ++i) {
        if (groups[i] == own) colour = classes.meeting_colours[meeting + i];
      }
      for (std::size_t i = 0; i < groups.size() && colour >= 0; ++i) {
        if (classes.meeting_colours[meeting + i] != colour) continue;
        RC_ASSERT(groups[i] == own);
        break;
      }
      meeting += groups.size();
    }
  }
}

}  // namespace
}  // namespace stepcast::plan
