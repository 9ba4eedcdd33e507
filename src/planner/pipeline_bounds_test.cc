#include "src/planner/pipeline_bounds.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/parallel/pipeline_schedule.h"

namespace stepcast::planner {
namespace {

ChunkWork Work(std::int64_t forward, std::int64_t backward, std::int64_t saved) {
  return {.passes = {.forward = forward,
                     .backward_input = backward / 2,
                     .backward_weight = backward - backward / 2,
                     .backward = backward},
          .saved = Bytes(saved),
          .backward = Bytes(saved + 1)};
}

// Equal stages: (M + P - 1)(F + B) for GPipe and 1F1B; min(M, P - s) micro-batches in flight with
// 1F1B, M with GPipe, one byte of temporaries beside them.
RC_GTEST_PROP(PipelineBounds, EqualStagesHaveTheClosedForms, ()) {
  const int stages = *rc::gen::inRange(2, 7), batches = *rc::gen::inRange(1, 12);
  const auto forward = *rc::gen::inRange<std::int64_t>(1, 50);
  const auto backward = *rc::gen::inRange<std::int64_t>(1, 50);
  const std::vector<ChunkWork> chunks(static_cast<std::size_t>(stages),
                                      Work(forward, backward, 10));
  const Time expected = Picoseconds((batches + stages - 1) * (forward + backward));
  const auto in_turn = parallel::OneForwardOneBackward(stages, batches);
  const auto all_forward = parallel::GPipe(stages, batches);
  RC_ASSERT(PipelineStepTime(in_turn, chunks) == expected);
  RC_ASSERT(PipelineStepTime(all_forward, chunks) == expected);
  for (int s = 0; s < stages; ++s) {
    const auto stage = static_cast<std::size_t>(s);
    RC_ASSERT(ActivationsInFlight(in_turn, chunks)[stage] ==
              Bytes(10 * std::min(batches, stages - s) + 1));
    RC_ASSERT(ActivationsInFlight(all_forward, chunks)[stage] == Bytes(10 * batches + 1));
  }
}

// In a pair the forward keeps what the backward lets go of: never more than one micro-batch, and
// one byte of temporaries.
TEST(PipelineBounds, PairsHoldWhatTheirPassesHoldInTurns) {
  const std::vector<ChunkWork> chunks = {Work(2, 4, 10)};
  const auto schedule = parallel::Combined(parallel::Sequential(3));
  EXPECT_EQ(ActivationsInFlight(schedule, chunks), std::vector<Bytes>{Bytes(11)});
  EXPECT_EQ(PipelineStepTime(schedule, chunks), Picoseconds(18));
}

// Unequal: the slowest stage has its M micro-batches one after the other, behind the first forward
// of the stages before it and before the last backward of theirs.
RC_GTEST_PROP(PipelineBounds, NoStageIsFasterThanItsWorkAndTheWayThere, ()) {
  const int stages = *rc::gen::inRange(2, 6), batches = *rc::gen::inRange(1, 10);
  std::vector<ChunkWork> chunks;
  for (int s = 0; s < stages; ++s) {
    chunks.push_back(
        Work(*rc::gen::inRange<std::int64_t>(1, 50), *rc::gen::inRange<std::int64_t>(1, 50), 1));
  }
  const Time bound = PipelineStepTime(parallel::OneForwardOneBackward(stages, batches), chunks);
  std::int64_t before = 0;
  for (const ChunkWork& chunk : chunks) {
    const std::int64_t both = chunk.passes.forward + *chunk.passes.backward;
    RC_ASSERT(bound >= Picoseconds(before + batches * both));
    before += both;
  }
}

}  // namespace
}  // namespace stepcast::planner
