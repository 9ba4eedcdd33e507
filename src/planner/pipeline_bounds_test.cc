#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/cost/prices.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/planner/bounds.h"
#include "src/program/program.h"

namespace stepcast::planner {
namespace {

ChunkWork Work(std::int64_t forward, std::int64_t backward, std::int64_t saved) {
  return {.forward = Picoseconds(forward),
          .backward = Picoseconds(backward),
          .backward_input = Picoseconds(backward / 2),
          .backward_weight = Picoseconds(backward - backward / 2),
          .kernels = Picoseconds(forward + backward),
          .saved = Bytes(saved),
          .backward_peak = Bytes(saved + 1)};
}

// Equal stages: (M + P - 1)(F + B) for GPipe and 1F1B; min(M, P - s) micro-batches in flight with
// 1F1B, M with GPipe, plus one byte of temporaries.
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

// In a pair, the forward keeps what the backward frees: never more than one micro-batch, plus one
// byte of temporaries.
TEST(PipelineBounds, PairsHoldWhatTheirPassesHoldInTurns) {
  const std::vector<ChunkWork> chunks = {Work(2, 4, 10)};
  const auto schedule = parallel::Combined(parallel::Sequential(3));
  EXPECT_EQ(ActivationsInFlight(schedule, chunks), std::vector<Bytes>{Bytes(11)});
  EXPECT_EQ(PipelineStepTime(schedule, chunks), Picoseconds(18));
}

// Unequal stages: the slowest stage runs its M micro-batches one after the other, after the first
// forward of the stages before it and before their last backward.
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
    const std::int64_t both = (chunk.forward + chunk.backward).picoseconds();
    RC_ASSERT(bound >= Picoseconds(before + batches * both));
    before += both;
  }
}

// A step: a forward of 1, a backward of 2, then a collective of 5 that the update of 3 waits for.
// The next forward waits for a gather of 7, which waits for the update; another gather of 11
// follows on its stream, and nothing waits for it. A copy of 100 begins before the backward ends,
// and nothing waits for it.
TEST(PipelineBounds, BetweenStepsCountsWhatWaitsForTheOneAndIsWaitedForByTheOther) {
  program::Program program;
  program.streams.resize(3);
  program.events.resize(4);
  program.kernels.resize(3);
  program.collectives.resize(3);
  for (std::size_t c = 0; c < 3; ++c) program.collectives[c].communicator = 0;
  program.communicators.resize(1);
  program.copies.resize(1);
  cost::Prices prices;
  const auto takes = [](std::int64_t work) { return cost::Demand{.work = Picoseconds(work)}; };
  for (const std::int64_t work : {1, 2, 3}) prices.kernels.push_back(takes(work));
  for (const std::int64_t work : {5, 7, 11}) prices.collectives.emplace_back().demand = takes(work);
  prices.copies.push_back(takes(100));
  enum : std::uint16_t { kCompute, kCommunication, kCopies };
  enum : program::Index { kBackwardEnded, kReduced, kUpdated, kGathered };
  using program::Opcode, program::Phase;
  const auto add = [&](Opcode opcode, Phase phase, std::uint16_t stream, program::Index operand) {
    program.step.push_back(
        {.opcode = opcode, .phase = phase, .stream = stream, .operand = operand});
  };
  add(Opcode::kWaitEvent, Phase::kForward, kCompute, kGathered);
  add(Opcode::kKernel, Phase::kForward, kCompute, 0);
  add(Opcode::kCopy, Phase::kForward, kCopies, 0);
  add(Opcode::kKernel, Phase::kBackward, kCompute, 1);
  add(Opcode::kRecordEvent, Phase::kBackward, kCompute, kBackwardEnded);
  add(Opcode::kWaitEvent, Phase::kBackward, kCommunication, kBackwardEnded);
  add(Opcode::kCollective, Phase::kBackward, kCommunication, 0);
  add(Opcode::kRecordEvent, Phase::kBackward, kCommunication, kReduced);
  add(Opcode::kWaitEvent, Phase::kOptimizer, kCompute, kReduced);
  add(Opcode::kKernel, Phase::kOptimizer, kCompute, 2);
  add(Opcode::kRecordEvent, Phase::kOptimizer, kCompute, kUpdated);
  add(Opcode::kWaitEvent, Phase::kOptimizer, kCommunication, kUpdated);
  add(Opcode::kCollective, Phase::kOptimizer, kCommunication, 1);
  add(Opcode::kRecordEvent, Phase::kOptimizer, kCommunication, kGathered);
  add(Opcode::kCollective, Phase::kOptimizer, kCommunication, 2);
  EXPECT_EQ(TimeBetweenSteps(program, prices, true), Picoseconds(5 + 3 + 7));
  EXPECT_EQ(TimeBetweenSteps(program, prices, false), Picoseconds(3));
  // Without the wait for it the gather is no part of it.
  program.step.erase(program.step.begin());
  EXPECT_EQ(TimeBetweenSteps(program, prices, true), Picoseconds(5 + 3));
}

}  // namespace
}  // namespace stepcast::planner
