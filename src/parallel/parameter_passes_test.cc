#include <cstddef>
#include <map>
#include <set>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_check.h"
#include "src/parallel/schedule_text.h"

namespace stepcast::parallel {
namespace {

using Kind = ParameterPass::Kind;

// One chunk per stage: it stays gathered for the step.
TEST(ParameterPasses, OfOneChunk) {
  EXPECT_EQ(Print(WithReductions(WithUnshards(OneForwardOneBackward(2, 2)))),
            "stage 0: unshard F0 F1 B0 B1 reduce reshard\n"
            "stage 1: unshard F0 B0 F1 B1 reduce reshard\n");
}

// Four chunks, of which three are gathered at a time. Before F0.1 the next ones are 1, 2 and 3, so
// 0 is freed for 3. Before F0.2 they are 2, 3 and, in backward, 1. Before B0.2 they are 2, 1 and 0.
TEST(ParameterPasses, ThreeChunksAtATime) {
  EXPECT_EQ(Print(WithReductions(WithUnshards(BreadthFirst(1, 1, 4)))),
            "stage 0 holds 0 1 2 3: unshard.0 unshard.1 unshard.2 F0.0 reshard.0 unshard.3 F0.1 "
            "F0.2 F0.3 B0.3 reduce.3 reshard.3 unshard.0 B0.2 reduce.2 reshard.2 B0.1 reduce.1 "
            "reshard.1 B0.0 reduce.0 reshard.0\n");
}

// For every schedule: all passes compute with gathered parameters, at most three chunks are
// gathered (four with a pair that adds two), and each chunk's gradients are reduced once, after its
// last backward.
RC_GTEST_PROP(ParameterPasses, AreThereWhenTheyAreNeeded, ()) {
  const NamedSchedule& named =
      NamedSchedules()[*rc::gen::inRange<std::size_t>(0, NamedSchedules().size())];
  ScheduleShape shape{.stages = 2 * *rc::gen::inRange(1, 4)};
  shape.micro_batches = shape.stages * *rc::gen::inRange(2, 4);
  shape.virtual_stages = named.chunks > 0 ? named.chunks : *rc::gen::inRange(1, 6);
  const PipelineSchedule plain = named.build(shape);
  const PipelineSchedule schedule = WithReductions(WithUnshards(plain));
  RC_ASSERT(CheckSchedule(schedule).empty());
  for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
    std::set<int> gathered;
    std::map<int, int> backwards, reductions;
    std::vector<ScheduleEntry> rest;
    for (const ScheduleEntry& entry : schedule.stages[s].entries) {
      if (const auto* pass = std::get_if<ParameterPass>(&entry)) {
        if (pass->kind == Kind::kUnshard) RC_ASSERT(gathered.insert(pass->chunk).second);
        if (pass->kind == Kind::kReshard) RC_ASSERT(gathered.erase(pass->chunk) == 1U);
        if (pass->kind == Kind::kReduceGradients) {
          ++reductions[pass->chunk];
          RC_ASSERT(named.two_copies || backwards[pass->chunk] == shape.micro_batches);
        }
        RC_ASSERT(gathered.size() <= 4U);
        continue;
      }
      rest.push_back(entry);
      for (const Action& action : ActionsOf(entry)) {
        RC_ASSERT(gathered.contains(action.chunk));
        if (EndsBackward(action.task)) ++backwards[action.chunk];
      }
    }
    RC_ASSERT(gathered.empty());
    RC_ASSERT(rest == plain.stages[s].entries);
    for (const int chunk : schedule.stages[s].chunks) {
      RC_ASSERT(named.two_copies || reductions[chunk] == 1);
    }
  }
}

}  // namespace
}  // namespace stepcast::parallel
