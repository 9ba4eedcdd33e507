#include "src/forecast/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/forecast/memory_timeline.h"
#include "src/forecast/memory_times.h"
#include "src/forecast/pool_courses.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/simulate/schedule.h"

namespace stepcast::forecast {
namespace {

using program::Category;
using program::Opcode;
using program::Program;

program::Instruction On(Opcode opcode, std::uint16_t stream, program::Index operand,
                        std::uint16_t micro_batch = 0) {
  return {.opcode = opcode, .stream = stream, .operand = operand, .micro_batch = micro_batch};
}

// Releases are not timed: only the number of steps matters.
program::Timeline StepsOnly(int steps) {
  program::Timeline timeline;
  timeline.step_ends.resize(static_cast<std::size_t>(steps));
  return timeline;
}

// A shard of 12 MiB over the ranks stays; each step gathers 12 MiB beside an activation of 5.
Program Sharded(std::int64_t ranks) {
  Program program;
  program.streams = {{"compute"}};
  program.buffers = {{.name = "shard", .size = MiB(12 / ranks), .category = Category::kParameter},
                     {.name = "gathered", .size = MiB(12), .category = Category::kCommunication},
                     {.name = "activation", .size = MiB(5), .category = Category::kActivation}};
  program.prologue = {On(Opcode::kAllocate, 0, 0)};
  program.step = {On(Opcode::kAllocate, 0, 1), On(Opcode::kAllocate, 0, 2),
                  On(Opcode::kRelease, 0, 1), On(Opcode::kRelease, 0, 2)};
  return program;
}

// 1 rank: segments of 12, 12 and 20 MiB. 2 or 3 ranks: the shard of 6 or 4 MiB takes 20, what is
// gathered fits behind it, and nothing else does. 12 ranks: a shard of 1 MiB is a small one: 2 MiB,
// and again 12 and 20.
TEST(MemoryPlanTest, KnowsOtherNumbersOfRanks) {
  PoolCourses courses;
  MemoryPlan plan(Sharded(1), courses);
  for (const auto& [ranks, reserved] : {std::pair{1, 44}, {2, 40}, {12, 34}, {3, 40}, {1, 44}}) {
    const auto peak = plan.Of(Sharded(ranks), 1, GiB(1));
    ASSERT_TRUE(peak.has_value());
    EXPECT_EQ(peak->reserved, MiB(reserved)) << ranks;
    EXPECT_EQ(peak->total, MiB(12 / ranks + 17));
    EXPECT_EQ(peak->by_category[0], MiB(12 / ranks));
    EXPECT_TRUE(peak->fits);
    const auto handed_out = plan.HandedOut(Sharded(ranks), MiB(20));
    ASSERT_TRUE(handed_out.has_value());
    EXPECT_EQ(handed_out->total, MiB(12 / ranks + 17));
    EXPECT_EQ(handed_out->reserved, handed_out->total);
    EXPECT_EQ(handed_out->fits, 12 / ranks + 17 <= 20);
  }
}

// Less than what is handed out does not do; between that and what is reserved, a replay must tell.
TEST(MemoryPlanTest, LeavesAFullDeviceToAReplay) {
  PoolCourses courses;
  MemoryPlan plan(Sharded(1), courses);
  EXPECT_TRUE(plan.Of(Sharded(1), 1, MiB(44)).has_value());
  EXPECT_FALSE(plan.Of(Sharded(1), 1, MiB(43)).has_value());
  EXPECT_FALSE(plan.Of(Sharded(1), 1, MiB(29)).has_value());
  const auto tight = plan.Of(Sharded(1), 1, MiB(28));
  ASSERT_TRUE(tight.has_value());
  EXPECT_FALSE(tight->fits);
  EXPECT_EQ(tight->reserved, MiB(44));
}

TEST(MemoryPlanTest, LeavesWhatOutlivesAStepToAReplay) {
  Program program = Sharded(1);
  program.step.pop_back();
  PoolCourses courses;
  MemoryPlan plan(program, courses);
  EXPECT_FALSE(plan.Of(program, 1, GiB(1)).has_value());
  EXPECT_FALSE(plan.HandedOut(program, GiB(1)).has_value());
}

struct AnyProgram {
  Program program;
  std::vector<std::int64_t> whole;  // by buffer; 0: its size does not depend on ranks

  // What lowering does: sizes rounded up to whole parts.
  Program For(std::int64_t ranks) const {
    Program sized = program;
    for (std::size_t b = 0; b < whole.size(); ++b) {
      if (whole[b] == 0) continue;
      const std::int64_t part = (whole[b] + ranks - 1) / ranks;
      // Gathered again, or a shard.
      const bool gathered = sized.buffers[b].category == Category::kCommunication;
      sized.buffers[b].size = Bytes(gathered ? part * ranks : part);
      sized.buffers[b].padding =
          Bytes(gathered ? part * ranks - whole[b] : part - whole[b] / ranks);
    }
    return sized;
  }
};

// What lowering may tell of the buffers, or nothing.
std::vector<std::uint64_t> AnyLikeness(const AnyProgram& any) {
  std::vector<std::uint64_t> likeness;
  if (*rc::gen::arbitrary<bool>()) return likeness;
  for (std::size_t b = 0; b < any.whole.size(); ++b) {
    const bool gathered = any.program.buffers[b].category == Category::kCommunication;
    const auto whole = static_cast<std::uint64_t>(any.whole[b]);
    likeness.push_back(whole == 0 ? 0 : 2 * whole + (gathered ? 1 : 0));
  }
  return likeness;
}

AnyProgram Any() {
  AnyProgram any;
  const auto streams = *rc::gen::inRange<std::uint16_t>(1, 3);
  any.program.streams.resize(streams);
  // Buffers of few sizes.
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 4; ++i) {
    sizes.push_back(*rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 1 << 20),
                                    rc::gen::inRange<std::int64_t>(0, 20 << 20),
                                    rc::gen::inRange<std::int64_t>(0, 100 << 20)));
  }
  const auto buffers = *rc::gen::inRange<program::Index>(1, 16);
  for (program::Index b = 0; b < buffers; ++b) {
    const std::int64_t size = *rc::gen::elementOf(sizes);
    const int category = *rc::gen::inRange(0, program::kCategories);
    any.program.buffers.push_back({.name = std::to_string(b),
                                   .size = Bytes(size),
                                   .category = static_cast<Category>(category)});
    any.whole.push_back(*rc::gen::arbitrary<bool>() ? size : 0);
  }
  std::vector<int> state(buffers);  // 1: allocated, 2: stays
  std::vector<std::uint16_t> stream(buffers);
  for (program::Index b = 0; b < buffers; ++b) {
    stream[b] = *rc::gen::inRange<std::uint16_t>(0, streams);
    if (*rc::gen::inRange(0, 3) > 0) continue;
    any.program.prologue.push_back(On(Opcode::kAllocate, stream[b], b));
    state[b] = 2;
  }
  const auto micro_batches = *rc::gen::inRange<std::uint16_t>(1, 4);
  std::vector<program::Index> order;
  for (std::uint16_t m = 0; m < micro_batches; ++m) {
    // Like the one before, or not.
    if (m == 0 || *rc::gen::arbitrary<bool>()) {
      order = *rc::gen::container<std::vector<program::Index>>(
          rc::gen::inRange<program::Index>(0, buffers));
    }
    const auto change = [&](program::Index b) {
      if (state[b] == 2) return;
      any.program.step.push_back(
          On(state[b] == 0 ? Opcode::kAllocate : Opcode::kRelease, stream[b], b, m));
      state[b] = 1 - state[b];
    };
    for (const program::Index b : order) change(b);
    for (program::Index b = 0; b < buffers; ++b) {
      if (state[b] == 1 && (m + 1 == micro_batches || *rc::gen::arbitrary<bool>())) change(b);
    }
  }
  return any;
}

void CheckSame(const MemoryPeak& a, const MemoryPeak& b) {
  RC_ASSERT(a.total == b.total);
  RC_ASSERT(a.by_category == b.by_category);
  RC_ASSERT(a.padding == b.padding);
  RC_ASSERT(a.reserved == b.reserved);
  RC_ASSERT(a.fits == b.fits);
  RC_ASSERT(a.flushes == b.flushes);
}

// On any numbers of ranks, one after the other, for two programs that share what is known of pools.
RC_GTEST_PROP(MemoryPlanProperty, IsWhatAReplayTells, ()) {
  PoolCourses courses;
  const AnyProgram programs[2] = {Any(), Any()};
  MemoryPlan plans[2] = {{programs[0].For(8), courses, AnyLikeness(programs[0])},
                         {programs[1].For(8), courses, AnyLikeness(programs[1])}};
  const auto ranks =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 200));
  const int steps = *rc::gen::inRange(1, 5);
  for (const std::int64_t count : ranks) {
    for (int p = 0; p < 2; ++p) {
      const Program program = programs[p].For(count);
      const program::Timeline timeline = StepsOnly(steps);
      const Bytes capacity(*rc::gen::oneOf(rc::gen::just(GiB(100).count()),
                                           rc::gen::inRange(MiB(1).count(), MiB(500).count())));
      const MemoryPeak expected = PeakOf(program, timeline, capacity);
      const auto peak = plans[p].Of(program, steps, capacity);
      if (peak) {
        CheckSame(*peak, expected);
      } else {
        RC_ASSERT(PeakOf(program, timeline, GiB(100)).reserved > capacity);
      }
      const auto handed_out = plans[p].HandedOut(program, capacity);
      RC_ASSERT(handed_out.has_value());
      CheckSame(*handed_out, PeakHandedOut(program, timeline, capacity));
    }
  }
}

// The program with a collective before some releases, on another stream that is recorded on their
// buffers. The host waits here and there.
Program WithCollectives(const Program& program) {
  Program late = program;
  late.streams.push_back({"communication"});
  late.communicators.resize(1);
  late.collectives.resize(1);
  late.collectives.front().communicator = 0;
  late.events.resize(1);
  late.step.clear();
  const auto other = static_cast<std::uint16_t>(program.streams.size());
  for (const program::Instruction& instruction : program.step) {
    if (*rc::gen::inRange(0, 3) == 0) {
      late.step.push_back(On(Opcode::kHostWaitEvent, 0, 0, instruction.micro_batch));
    }
    if (instruction.opcode == Opcode::kRelease && *rc::gen::arbitrary<bool>()) {
      program::Instruction collective = On(Opcode::kCollective, other, 0, instruction.micro_batch);
      collective.first_use = static_cast<program::Index>(late.uses.size());
      collective.use_count = 1;
      late.uses.push_back({.buffer = instruction.operand});
      late.step.push_back(collective);
      late.step.push_back(
          On(Opcode::kRecordStream, other, instruction.operand, instruction.micro_batch));
    }
    late.step.push_back(instruction);
  }
  return late;
}

// A run, as records and as what decides when memory changes.
struct AnyRun {
  program::Timeline timeline;
  std::vector<Time> segments;
};

AnyRun AnyRunOf(const Program& program, const simulate::Schedule& schedule, std::uint32_t steps,
                std::uint32_t recorded) {
  AnyRun run;
  const auto microseconds = [](int most) { return Microseconds(*rc::gen::inRange(0, most)); };
  const int longest_wait = *rc::gen::element(4, 12);
  program::Timeline& timeline = run.timeline;
  Time now, end;
  for (std::uint32_t step = 0; step < recorded; ++step) {
    std::size_t s = schedule.prologue_segments;
    std::uint32_t item = 0;  // of the host, in the segment
    const auto begin = [&] {
      now += microseconds(longest_wait);
      run.segments.push_back(now);
      item = schedule.segments[s].first_item;
    };
    begin();
    for (program::Index i = 0; i < program.step.size(); ++i) {
      switch (program.step[i].opcode) {
        case Opcode::kCollective:
          timeline.operations.push_back(
              {.instruction = i, .step = step, .start = now, .end = now + microseconds(20)});
          end = std::max(end, timeline.operations.back().end);
          break;
        case Opcode::kAllocate:
        case Opcode::kRelease:
          timeline.memory.push_back(
              {.instruction = i, .step = step, .time = now + schedule.host_items[item++].begin});
          break;
        case Opcode::kHostWaitEvent:
          now += schedule.segments[s++].length;
          begin();
          break;
        default:
          break;
      }
    }
    now += schedule.segments[s].length;
    end = std::max(end, now);
    if (*rc::gen::arbitrary<bool>()) now = end;
    timeline.step_ends.push_back(end);
  }
  // The host has done with a step before it begins the next.
  const Time last_began = run.segments[run.segments.size() / recorded * (recorded - 1)];
  const Time interval = std::max(Microseconds(50), now - last_began);
  while (timeline.step_ends.size() < steps) {
    timeline.step_ends.push_back(timeline.step_ends.back() + interval);
  }
  return run;
}

// Where releases wait for operations, whether all steps were run or the rest is a repetition.
RC_GTEST_PROP(MemoryPlanProperty, IsWhatATimedReplayTells, (bool repeats)) {
  AnyProgram any = Any();
  any.program = WithCollectives(any.program);
  const DelayedReleases delayed(any.program);
  PoolCourses courses;
  const std::vector<std::uint64_t> likeness = AnyLikeness(any);
  MemoryPlan plan(any.For(1), courses, likeness);
  simulate::Schedule schedule;
  int said = 0;
  for (const std::int64_t ranks : {8, 3, 24}) {
    const Program program = any.For(ranks);
    if (schedule.id == 0 || *rc::gen::arbitrary<bool>()) {
      cost::Prices prices;
      prices.collectives.resize(1);
      prices.issue_collective = Microseconds(*rc::gen::element(0, 0, 1, 5));
      schedule.Build(program, prices);
    }
    const auto recorded = *rc::gen::inRange<std::uint32_t>(1, 4);
    const std::uint32_t steps = repeats ? 4 : recorded;
    const AnyRun run = AnyRunOf(program, schedule, steps, recorded);
    MemoryTimes times{.schedule = &schedule,
                      .delayed = &delayed,
                      .steps = recorded,
                      .segments = run.segments,
                      .step_ends = run.timeline.step_ends};
    times.SetEnds(std::span(run.timeline.operations));
    KnownRun known{.delayed = &delayed};
    if (repeats) known.repeated = recorded - 1;
    const MemoryPeak expected = PeakHandedOut(program, run.timeline, MiB(300), known);
    known.ends = times.ends;
    CheckSame(PeakHandedOut(program, times.Changes(), MiB(300), known), expected);
    const auto peak = plan.HandedOut(program, times, MiB(300));
    if (!peak) continue;
    ++said;
    CheckSame(*peak, expected);
  }
  RC_TAG(said > 0 ? "told" : "left to a replay");
}

// Whether all that concerns memory is over.
RC_GTEST_PROP(MemoryPlanProperty, TimesAreOverWhenTheirRecordsAre, ()) {
  AnyProgram any = Any();
  const Program program = WithCollectives(any.program);
  const DelayedReleases delayed(program);
  cost::Prices prices;
  prices.collectives.resize(1);
  prices.issue_collective = Microseconds(*rc::gen::element(0, 1, 5));
  simulate::Schedule schedule;
  schedule.Build(program, prices);
  const AnyRun run = AnyRunOf(program, schedule, 2, 2);
  MemoryTimes times{.schedule = &schedule,
                    .delayed = &delayed,
                    .steps = 2,
                    .segments = run.segments,
                    .step_ends = run.timeline.step_ends};
  times.SetEnds(std::span(run.timeline.operations));
  Time last;
  if (!run.timeline.memory.empty()) last = run.timeline.memory.back().time;
  for (const program::OperationRecord& record : run.timeline.operations) {
    last = std::max(last, record.end);
  }
  RC_ASSERT(times.OverAt(last));
  RC_ASSERT(last == Time() || !times.OverAt(last - Picoseconds(1)));
}

}  // namespace
}  // namespace stepcast::forecast
