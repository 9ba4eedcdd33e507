#include "src/memory/replay.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/memory/account.h"
#include "src/memory/deferred_frees.h"
#include "src/program/instruction.h"

namespace stepcast::memory {
namespace {

using program::Category;
using program::Opcode;

program::Instruction On(Opcode opcode, std::uint16_t stream, program::Index operand,
                        std::uint16_t micro_batch = 0) {
  return {.opcode = opcode, .stream = stream, .operand = operand, .micro_batch = micro_batch};
}

Usage PeakOf(const program::Program& program, const program::Timeline& timeline, Bytes capacity,
             bool expandable = false) {
  return Replayer().Figures(
      program, timeline, DeferredFrees(program),
      {.capacity = capacity,
       .allocator = expandable ? Allocator::kCachingExpandable : Allocator::kCaching},
      {});
}

Bytes Of(const Usage& peak, Category category) {
  return peak.at_peak[static_cast<std::size_t>(category)];
}

// Parameters (1000 B) from the prologue; in the step a gradient (600 B, 8 B padding) and, after its
// release, an activation (500 B).
program::Program Small() {
  program::Program program;
  program.streams = {{.name = "compute"}, {.name = "communication"}};
  program.buffers = {{.size = Bytes(1000), .category = Category::kParameter},
                     {.size = Bytes(600), .category = Category::kGradient, .padding = Bytes(8)},
                     {.size = Bytes(500), .category = Category::kActivation}};
  program.prologue = {On(Opcode::kAllocate, 0, 0)};
  program.step = {On(Opcode::kAllocate, 0, 1), On(Opcode::kRelease, 0, 1),
                  On(Opcode::kAllocate, 0, 2), On(Opcode::kRelease, 0, 2)};
  return program;
}

program::Timeline HostOrder(std::initializer_list<program::Index> instructions) {
  program::Timeline timeline;
  std::int64_t time = 0;
  for (const program::Index instruction : instructions) {
    timeline.memory.push_back({.instruction = instruction, .time = Microseconds(time++)});
  }
  timeline.step_ends = {Microseconds(100)};
  return timeline;
}

TEST(Replay, ReleasesInHostOrderMakeRoom) {
  const Usage peak = PeakOf(Small(), HostOrder({0, 1, 2, 3}), GiB(1));
  EXPECT_EQ(peak.peak, Bytes(1600));
  EXPECT_EQ(Of(peak, Category::kParameter), Bytes(1000));
  EXPECT_EQ(Of(peak, Category::kGradient), Bytes(600));
  EXPECT_EQ(Of(peak, Category::kActivation), Bytes(0));
  EXPECT_EQ(peak.padding, Bytes(8));
  EXPECT_EQ(peak.reserved, MiB(2));  // all in one small segment
  EXPECT_TRUE(peak.fits);
}

// 1000 B need a segment of 2 MiB.
TEST(Replay, SegmentsDecideWhatFits) {
  const Usage peak = PeakOf(Small(), HostOrder({0, 1, 2, 3}), MiB(1));
  EXPECT_FALSE(peak.fits);
  EXPECT_EQ(peak.reserved, MiB(2));
  EXPECT_EQ(peak.peak, Bytes(1600));
}

// 30 MiB on one stream are released, then 40 MiB allocated on another: 70 MiB are reserved if there
// is room, and 40 if the first segment must be returned.
TEST(Replay, AFullDeviceGivesCachedSegmentsBack) {
  program::Program program;
  program.streams = {{"compute"}, {"side"}};
  program.buffers = {{.size = MiB(30)}, {.size = MiB(40)}};
  program.step = {On(Opcode::kAllocate, 0, 0), On(Opcode::kRelease, 0, 0),
                  On(Opcode::kAllocate, 1, 1), On(Opcode::kRelease, 1, 1)};
  const program::Timeline timeline = HostOrder({0, 1, 2, 3});
  const Usage roomy = PeakOf(program, timeline, MiB(70));
  EXPECT_EQ(roomy.reserved, MiB(70));
  EXPECT_EQ(roomy.flushes, 0);
  const Usage tight = PeakOf(program, timeline, MiB(69));
  EXPECT_TRUE(tight.fits);
  EXPECT_EQ(tight.reserved, MiB(40));
  EXPECT_EQ(tight.flushes, 1);
  EXPECT_FALSE(PeakOf(program, timeline, MiB(39)).fits);
}

// With 69 MiB, each stream's segment must be returned for the other's: once in the first step,
// twice in every later one. The second of three steps is described.
TEST(Replay, FlushesTakeTheDriversCalls) {
  program::Program program;
  program.streams = {{"compute"}, {"side"}};
  program.buffers = {{.size = MiB(30)}, {.size = MiB(40)}};
  program.step = {On(Opcode::kAllocate, 0, 0), On(Opcode::kRelease, 0, 0),
                  On(Opcode::kAllocate, 1, 1), On(Opcode::kRelease, 1, 1)};
  program::Timeline timeline;
  timeline.step_ends.resize(3);
  Replayer replayer;
  const auto run = [&](Bytes capacity) {
    return replayer.Figures(program, timeline, DeferredFrees(program), {.capacity = capacity},
                            {.described = 1});
  };
  const Usage tight = run(MiB(69));
  EXPECT_TRUE(tight.fits);
  EXPECT_EQ(tight.flushes, 5);
  const auto swap = [](Bytes given_back) {
    return DriverCalls{.flushes = 1, .allocations = 1, .frees = 1, .given_back = given_back};
  };
  const DriverCalls first = swap(MiB(40)), second = swap(MiB(30));
  EXPECT_EQ(tight.step_calls, (std::vector<DriverCallsAt>{{0, first}, {2, second}}));
  // Filling the cache once has no cost in later steps.
  EXPECT_TRUE(run(MiB(70)).step_calls.empty());
  // A program whose other instructions are elsewhere has the same requests.
  program.step.insert(program.step.begin() + 1, On(Opcode::kKernel, 0, 0));
  EXPECT_EQ(run(MiB(69)).step_calls, (std::vector<DriverCallsAt>{{0, first}, {3, second}}));
}

// A collective that ends at 50 us also uses the gradient and is recorded on its stream. Its release
// at 3 us takes effect then, so the activation allocated at 4 us adds to it.
TEST(Replay, ARecordedStreamDelaysTheRelease) {
  program::Program program = Small();
  program.collectives = {{.bytes = Bytes(600)}};
  program.uses = {{.buffer = 1, .write = true, .size = Bytes(600)}};
  program::Instruction collective = On(Opcode::kCollective, 1, 0);
  collective.use_count = 1;
  program.step = {On(Opcode::kAllocate, 0, 1),     collective,
                  On(Opcode::kRecordStream, 1, 1), On(Opcode::kRelease, 0, 1),
                  On(Opcode::kAllocate, 0, 2),     On(Opcode::kRelease, 0, 2)};
  program::Timeline timeline;
  timeline.memory = {{.instruction = 0, .time = Microseconds(0)},
                     {.instruction = 3, .time = Microseconds(3)},
                     {.instruction = 4, .time = Microseconds(4)},
                     {.instruction = 5, .time = Microseconds(5)}};
  timeline.operations = {{.instruction = 1, .start = Microseconds(1), .end = Microseconds(50)}};
  timeline.step_ends = {Microseconds(50)};
  EXPECT_EQ(PeakOf(program, timeline, GiB(1)).peak, Bytes(1000 + 600 + 500));

  timeline.operations.front().end = Microseconds(4);  // just in time
  EXPECT_EQ(PeakOf(program, timeline, GiB(1)).peak, Bytes(1600));
}

// As above with 30 and 40 MiB on a device of 50: the allocator waits until 50 us, gets the
// gradient's segment back and takes another one.
TEST(Replay, AFullDeviceWaitsForOtherStreams) {
  program::Program program = Small();
  program.buffers[1].size = MiB(30);
  program.buffers[1].padding = Bytes(0);
  program.buffers[2].size = MiB(40);
  program.collectives = {{.bytes = MiB(30)}};
  program.uses = {{.buffer = 1, .write = true, .size = MiB(30)}};
  program::Instruction collective = On(Opcode::kCollective, 1, 0);
  collective.use_count = 1;
  program.prologue.clear();
  program.step = {On(Opcode::kAllocate, 0, 1),     collective,
                  On(Opcode::kRecordStream, 1, 1), On(Opcode::kRelease, 0, 1),
                  On(Opcode::kAllocate, 0, 2),     On(Opcode::kRelease, 0, 2)};
  program::Timeline timeline;
  timeline.memory = {{.instruction = 0, .time = Microseconds(0)},
                     {.instruction = 3, .time = Microseconds(3)},
                     {.instruction = 4, .time = Microseconds(4)},
                     {.instruction = 5, .time = Microseconds(5)}};
  timeline.operations = {{.instruction = 1, .start = Microseconds(1), .end = Microseconds(50)}};
  timeline.step_ends = {Microseconds(50)};
  EXPECT_EQ(PeakOf(program, timeline, GiB(1)).reserved, MiB(70));
  const Usage tight = PeakOf(program, timeline, MiB(50));
  EXPECT_TRUE(tight.fits);
  EXPECT_EQ(tight.reserved, MiB(40));
  EXPECT_EQ(tight.peak, MiB(40));
  EXPECT_EQ(tight.flushes, 1);
  EXPECT_FALSE(PeakOf(program, timeline, MiB(39)).fits);
}

// 30 MiB freed, then 40: one range grows by the difference, 2 x 20 MiB in all.
TEST(Replay, ExpandableSegmentsGrow) {
  program::Program program;
  program.streams = {{"compute"}};
  program.buffers = {{.size = MiB(30)}, {.size = MiB(40)}};
  program.step = {On(Opcode::kAllocate, 0, 0), On(Opcode::kRelease, 0, 0),
                  On(Opcode::kAllocate, 0, 1), On(Opcode::kRelease, 0, 1)};
  const program::Timeline timeline = HostOrder({0, 1, 2, 3});
  EXPECT_EQ(PeakOf(program, timeline, GiB(1)).reserved, MiB(70));
  EXPECT_EQ(PeakOf(program, timeline, GiB(1), /*expandable=*/true).reserved, MiB(40));
}

// A program and a run of it: allocations and frees on two streams in one to three micro-batches.
// Some buffers exist from the prologue on, some across step ends. Kernels on both streams end late
// and streams are recorded on buffers, so frees are deferred.
struct Run {
  program::Program program;
  program::Timeline timeline;
};

Run AnyRun(bool deferred) {
  Run run;
  program::Program& program = run.program;
  program.streams.resize(2);
  program.kernels.resize(1);
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 4; ++i) {
    sizes.push_back(*rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 1 << 20),
                                    rc::gen::inRange<std::int64_t>(0, 20 << 20),
                                    rc::gen::inRange<std::int64_t>(0, 100 << 20)));
  }
  const auto buffers = *rc::gen::inRange<program::Index>(1, 16);
  std::vector<int> state(buffers);  // 1: allocated, 2: stays
  std::vector<std::uint16_t> owner(buffers);
  for (program::Index b = 0; b < buffers; ++b) {
    const std::int64_t size = *rc::gen::elementOf(sizes);
    const int category = *rc::gen::inRange(0, program::kCategories);
    program.buffers.push_back({.size = Bytes(size),
                               .category = static_cast<Category>(category),
                               .padding = Bytes(size / 10)});
    owner[b] = *rc::gen::inRange<std::uint16_t>(0, 2);
    const int place = *rc::gen::inRange(0, 6);
    if (place > 1) continue;
    // Stays, or is freed by the first step and is there again at its end.
    program.prologue.push_back(On(Opcode::kAllocate, owner[b], b));
    state[b] = place == 0 ? 2 : 1;
  }
  const std::vector<int> begin = state;
  const auto micro_batches = *rc::gen::inRange<std::uint16_t>(1, 4);
  std::vector<program::Index> order;
  const auto change = [&](program::Index b, std::uint16_t m) {
    if (state[b] == 2) return;
    if (state[b] == 1 && deferred && *rc::gen::arbitrary<bool>()) {
      const auto other = static_cast<std::uint16_t>(1 - owner[b]);
      program::Instruction kernel = On(Opcode::kKernel, other, 0, m);
      kernel.first_use = static_cast<program::Index>(program.uses.size());
      kernel.use_count = 1;
      program.uses.push_back({.buffer = b, .size = program.buffers[b].size});
      program.step.push_back(kernel);
      program.step.push_back(On(Opcode::kRecordStream, other, b, m));
    }
    program.step.push_back(
        On(state[b] == 0 ? Opcode::kAllocate : Opcode::kRelease, owner[b], b, m));
    state[b] = 1 - state[b];
  };
  for (std::uint16_t m = 0; m < micro_batches; ++m) {
    // Like the one before, or not.
    if (m == 0 || *rc::gen::arbitrary<bool>()) {
      order = *rc::gen::container<std::vector<program::Index>>(
          rc::gen::inRange<program::Index>(0, buffers));
    }
    for (const program::Index b : order) change(b, m);
  }
  for (program::Index b = 0; b < buffers; ++b) {
    if (state[b] != begin[b]) change(b, static_cast<std::uint16_t>(micro_batches - 1));
  }
  const auto steps = *rc::gen::inRange<std::uint32_t>(1, 6);
  Time time;
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (program::Index i = 0; i < program.step.size(); ++i) {
      time += Microseconds(*rc::gen::inRange(0, 3));
      const Opcode opcode = program.step[i].opcode;
      if (opcode == Opcode::kKernel) {
        const Time end = time + Microseconds(*rc::gen::inRange(0, 20));
        run.timeline.operations.push_back(
            {.instruction = i, .step = step, .issued = time, .start = time, .end = end});
      } else if (opcode != Opcode::kRecordStream) {
        run.timeline.memory.push_back({.instruction = i, .step = step, .time = time});
      }
    }
    run.timeline.step_ends.push_back(time + Microseconds(20));
  }
  return run;
}

Device AnyDevice() {
  return {.capacity = Bytes(*rc::gen::oneOf(rc::gen::just(GiB(100).count()),
                                            rc::gen::inRange(MiB(1).count(), MiB(500).count()))),
          .allocator = *rc::gen::element(Allocator::kNone, Allocator::kCaching,
                                         Allocator::kCachingExpandable)};
}

void CheckSame(const Usage& a, const Usage& b) {
  RC_ASSERT(a.peak == b.peak);
  RC_ASSERT(a.at_peak == b.at_peak);
  RC_ASSERT(a.padding == b.padding);
  RC_ASSERT(a.reserved == b.reserved);
  RC_ASSERT(a.fits == b.fits);
  RC_ASSERT(a.flushes == b.flushes);
  RC_ASSERT(a.step_calls == b.step_calls);
}

// Skipping steps does not change results, and cached replays are reused only for
// equal inputs.
RC_GTEST_PROP(ReplayProperty, FiguresAreThoseOfTheWholeAccount, (bool deferred)) {
  Replayer replayer;
  for (int i = 0; i < 2; ++i) {
    const Run run = AnyRun(deferred);
    const DeferredFrees frees(run.program);
    for (int j = 0; j < 2; ++j) {
      const Device device = AnyDevice();
      const auto steps = static_cast<std::uint32_t>(run.timeline.step_ends.size());
      const Steps asked{.described = *rc::gen::inRange<std::uint32_t>(0, steps)};
      const Usage whole = Record(run.program, run.timeline, device, asked).usage;
      for (int k = 0; k < 2; ++k) {
        CheckSame(replayer.Figures(run.program, run.timeline, frees, device, asked), whole);
      }
    }
  }
}

// The changes add up to the figures.
RC_GTEST_PROP(ReplayProperty, TheCurveReachesThePeakAndNoMore, (bool deferred)) {
  const Run run = AnyRun(deferred);
  const Device device = AnyDevice();
  const Account account = Record(run.program, run.timeline, device);
  Balance balance, at_peak;
  Bytes most, reserved;
  for (std::size_t i = 0; i < account.changes.size(); ++i) {
    const Change& change = account.changes[i];
    balance.Apply(run.program, change);
    most = std::max(most, balance.total());
    reserved = std::max(reserved, change.reserved);
    if (device.allocator != Allocator::kNone) RC_ASSERT(change.reserved >= balance.total());
    if (i > 0) RC_ASSERT(change.time >= account.changes[i - 1].time);
    if (i + 1 == account.peak_changes) at_peak = balance;
  }
  RC_ASSERT(most == account.usage.peak);
  RC_ASSERT(at_peak.total() == account.usage.peak);
  RC_ASSERT(at_peak.by_category() == account.usage.at_peak);
  if (device.allocator != Allocator::kNone) RC_ASSERT(reserved == account.usage.reserved);
  Bytes alive;
  for (const program::Index b : BuffersAtPeak(run.program, account)) {
    alive += run.program.buffers[b].size;
  }
  RC_ASSERT(alive == account.usage.peak);
  const std::uint32_t step = StepOfPeak(run.program, account, 1, 3);
  Balance again;
  most = Bytes();
  for (const Change& change : account.changes) {
    again.Apply(run.program, change);
    if (change.step == step) most = std::max(most, again.total());
  }
  RC_ASSERT(most == account.usage.peak);
}

// For a run of equal steps, one step and all step ends give the same result as the whole run.
RC_GTEST_PROP(ReplayProperty, RepeatedStepsNeedNoRecords, ()) {
  const Run run = AnyRun(true);
  const auto last = static_cast<std::uint32_t>(run.timeline.step_ends.size() - 1);
  const Time start = last == 0 ? Time() : run.timeline.step_ends[last - 1];
  const Time length = run.timeline.step_ends[last] - start;
  const auto shown = *rc::gen::inRange<std::uint32_t>(0, 4);
  const auto steps = shown + *rc::gen::inRange<std::uint32_t>(1, 5);
  program::Timeline whole, repeated;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const Time later = static_cast<std::int64_t>(step) * length - start;
    for (program::OperationRecord record : run.timeline.operations) {
      if (record.step != last) continue;
      record.step = step;
      record.end += later;
      whole.operations.push_back(record);
      if (step == shown) repeated.operations.push_back(record);
    }
    for (program::MemoryRecord record : run.timeline.memory) {
      if (record.step != last) continue;
      record.step = step;
      record.time += later;
      whole.memory.push_back(record);
      if (step == shown) repeated.memory.push_back(record);
    }
    whole.step_ends.push_back(static_cast<std::int64_t>(step + 1) * length);
  }
  repeated.step_ends = whole.step_ends;
  const Device device = AnyDevice();
  const Steps one{.described = shown, .repeated = shown};
  const Usage expected = Record(run.program, whole, device, {.described = shown}).usage;
  CheckSame(Replayer().Figures(run.program, repeated, DeferredFrees(run.program), device, one),
            expected);
  CheckSame(Record(run.program, repeated, device, one).usage, expected);
}

// Micro-batches that all do the same: each allocates blocks, and frees its own or an earlier
// micro-batch's, on two streams. A period has one or two of them.
struct Pipeline {
  struct Purpose {
    std::int64_t size = 0;
    std::uint16_t stream = 0;
    int until = 0;    // freed by the micro-batch so many later
    Time used_later;  // on the other stream, beyond the free; zero: not used there
  };
  struct Change {
    std::size_t purpose = 0;
    bool allocates = false;
  };
  std::vector<Purpose> purposes;
  std::vector<std::vector<Change>> orders;  // of the micro-batches of a period
  int most_in_flight = 0;

  static constexpr Time kMicroBatch = Microseconds(100);

  Run Of(int micro_batches, std::uint32_t steps, program::LongerStep* longer) const {
    Run run;
    program::Program& program = run.program;
    program.streams.resize(2);
    program.kernels.resize(1);
    Time time;
    const auto change = [&](int m, int of, const Change& own) {
      const Purpose& purpose = purposes[own.purpose];
      const auto buffer =
          static_cast<program::Index>(static_cast<std::size_t>(of) * purposes.size() + own.purpose);
      const auto micro_batch = static_cast<std::uint16_t>(m);
      if (!own.allocates && purpose.used_later > Time()) {
        const auto other = static_cast<std::uint16_t>(1 - purpose.stream);
        program::Instruction kernel = On(Opcode::kKernel, other, 0, micro_batch);
        kernel.first_use = static_cast<program::Index>(program.uses.size());
        kernel.use_count = 1;
        program.uses.push_back({.buffer = buffer, .size = Bytes(purpose.size)});
        run.timeline.operations.push_back(
            {.instruction = static_cast<program::Index>(program.step.size()),
             .issued = time,
             .start = time,
             .end = time + purpose.used_later});
        program.step.push_back(kernel);
        program.step.push_back(On(Opcode::kRecordStream, other, buffer, micro_batch));
      }
      run.timeline.memory.push_back(
          {.instruction = static_cast<program::Index>(program.step.size()), .time = time});
      program.step.push_back(On(own.allocates ? Opcode::kAllocate : Opcode::kRelease,
                                purpose.stream, buffer, micro_batch));
      time += Microseconds(1);
    };
    const int last_period = micro_batches - static_cast<int>(orders.size());
    const int period_before = last_period - static_cast<int>(orders.size());
    for (int m = 0; m < micro_batches + most_in_flight; ++m) {
      if (longer != nullptr && m == period_before) {
        longer->first_begin = static_cast<program::Index>(program.step.size());
      }
      if (longer != nullptr && m == last_period) {
        longer->begin = static_cast<program::Index>(program.step.size());
      }
      time = m * kMicroBatch;
      for (std::size_t n = 0; m < micro_batches && n < purposes.size(); ++n) {
        program.buffers.push_back({.size = Bytes(purposes[n].size)});
      }
      for (const Change& own : orders[static_cast<std::size_t>(m) % orders.size()]) {
        const int of = own.allocates ? m : m - purposes[own.purpose].until;
        if (of >= 0 && of < micro_batches) change(m, of, own);
      }
      if (longer != nullptr && m == micro_batches - 1) {
        longer->end = static_cast<program::Index>(program.step.size());
      }
    }
    const Time length = (micro_batches + most_in_flight) * kMicroBatch + Microseconds(150);
    for (std::uint32_t step = 0; step < steps; ++step) {
      run.timeline.step_ends.push_back(static_cast<std::int64_t>(step + 1) * length);
    }
    return run;
  }
};

Pipeline AnyPipeline() {
  Pipeline pipeline;
  const std::vector<std::int64_t> sizes = {3 << 20, 3 << 20, 8 << 20, 30 << 20, 100'000};
  const auto purposes = *rc::gen::inRange<std::size_t>(1, 6);
  for (std::size_t n = 0; n < purposes; ++n) {
    Pipeline::Purpose& own = pipeline.purposes.emplace_back();
    own.size = *rc::gen::elementOf(sizes);
    own.stream = *rc::gen::inRange<std::uint16_t>(0, 2);
    own.until = *rc::gen::inRange(0, 5);
    pipeline.most_in_flight = std::max(pipeline.most_in_flight, own.until);
    if (*rc::gen::arbitrary<bool>()) own.used_later = Microseconds(*rc::gen::inRange(1, 150));
  }
  const auto period = *rc::gen::inRange<std::size_t>(1, 3);
  for (std::size_t m = 0; m < period; ++m) {
    // Each is allocated and freed once, in any order: where a micro-batch frees its own, after
    // that it has allocated it.
    std::vector<Pipeline::Change>& order = pipeline.orders.emplace_back();
    for (std::size_t n = 0; n < purposes; ++n) {
      const auto place = order.begin() + *rc::gen::inRange<std::ptrdiff_t>(
                                             0, static_cast<std::ptrdiff_t>(order.size()) + 1);
      const auto allocation = order.insert(place, {.purpose = n, .allocates = true});
      const std::ptrdiff_t least =
          pipeline.purposes[n].until == 0 ? allocation - order.begin() + 1 : 0;
      order.insert(order.begin() + *rc::gen::inRange<std::ptrdiff_t>(
                                       least, static_cast<std::ptrdiff_t>(order.size()) + 1),
                   {.purpose = n, .allocates = false});
    }
  }
  return pipeline;
}

// A step of few micro-batches gives the figures of a longer one.
RC_GTEST_PROP(ReplayProperty, LongerStepsAreToldByShorterOnes, ()) {
  const Pipeline pipeline = AnyPipeline();
  const auto period = static_cast<int>(pipeline.orders.size());
  const int few =
      (pipeline.most_in_flight + *rc::gen::inRange(1, 4)) / period * period + 2 * period;
  const int more = *rc::gen::inRange(0, 60);
  const auto steps = *rc::gen::inRange<std::uint32_t>(1, 4);
  program::LongerStep longer{.micro_batches = period, .more = more};
  const Run shorter = pipeline.Of(few, steps, &longer);
  const Run whole = pipeline.Of(few + more * period, steps, nullptr);
  const Device device = AnyDevice();
  const std::uint32_t described = steps - 1;
  // The one step that is recorded is the first; all are like it.
  const Steps all{.described = described, .repeated = 0};
  Steps few_for_all = all;
  few_for_all.longer = longer;
  few_for_all.period = period * Pipeline::kMicroBatch;
  const Usage told = Replayer().Figures(shorter.program, shorter.timeline,
                                        DeferredFrees(shorter.program), device, few_for_all);
  const Usage expected = Record(whole.program, whole.timeline, device, all).usage;
  RC_CLASSIFY(told.of_longer);
  RC_ASSERT(told.of_longer || expected.flushes > 0);
  if (!told.of_longer) return;
  RC_ASSERT(told.peak == expected.peak);
  RC_ASSERT(told.at_peak == expected.at_peak);
  RC_ASSERT(told.reserved == expected.reserved);
  RC_ASSERT(told.fits == expected.fits);
  RC_ASSERT(told.flushes == expected.flushes);
}

}  // namespace
}  // namespace stepcast::memory
