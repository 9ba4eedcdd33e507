#include "src/forecast/time_breakdown.h"

#include <gtest/gtest.h>

namespace stepcast::forecast {
namespace {

using program::Opcode;
using program::Phase;

// Instruction 0: forward kernel, 1: backward kernel, 2: collective, 3: optimizer kernel, 4: a
// backward kernel on another stream, 5: the compute stream waits for the collective.
program::Program Six() {
  program::Program program;
  program.communicators.resize(1);
  program.collectives = {{.communicator = 0}};
  program.step = {
      {.opcode = Opcode::kKernel, .phase = Phase::kForward, .stream = 0},
      {.opcode = Opcode::kKernel, .phase = Phase::kBackward, .stream = 0},
      {.opcode = Opcode::kCollective, .phase = Phase::kBackward, .stream = 1, .operand = 0},
      {.opcode = Opcode::kKernel, .phase = Phase::kOptimizer, .stream = 0},
      {.opcode = Opcode::kKernel, .phase = Phase::kBackward, .stream = 2},
      {.opcode = Opcode::kWaitEvent, .phase = Phase::kOptimizer, .stream = 0}};
  return program;
}

program::OperationRecord Ran(program::Index instruction, std::int64_t start, std::int64_t end) {
  return {.instruction = instruction,
          .issued = Picoseconds(start),
          .ready = Picoseconds(start),
          .start = Picoseconds(start),
          .end = Picoseconds(end)};
}

// 0-10 forward, 10-30 backward, 20-50 collective, 50-55 optimizer; the compute stream waits from 30
// to 50. 55-60 is idle. The second stream's kernel covers 35-40 of the 20 exposed.
TEST(TimeBreakdown, EveryInstantHasOneOwner) {
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 10), Ran(1, 10, 30), Ran(4, 35, 40), Ran(2, 20, 50),
                         Ran(3, 50, 55)};
  timeline.waits = {{.instruction = 5, .start = Picoseconds(30), .end = Picoseconds(50)}};
  const Breakdown result = BreakDown(Six(), timeline, Time(), Picoseconds(60), Picoseconds(60));
  EXPECT_EQ(result.time.phase[0], Picoseconds(10));
  EXPECT_EQ(result.time.phase[1], Picoseconds(25));
  EXPECT_EQ(result.time.phase[2], Picoseconds(5));
  EXPECT_EQ(result.time.exposed_communication, Picoseconds(15));
  EXPECT_EQ(result.time.idle, Picoseconds(5));
  EXPECT_EQ(result.communication_total, Picoseconds(30));
}

// The same collective on the compute stream, without a wait: later operations on the stream wait
// for it.
TEST(TimeBreakdown, ACollectiveOnTheComputeStreamIsExposed) {
  program::Program program = Six();
  program.step[2].stream = 0;
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 10), Ran(1, 10, 30), Ran(2, 30, 50), Ran(3, 50, 55)};
  const Breakdown result = BreakDown(program, timeline, Time(), Picoseconds(60), Picoseconds(60));
  EXPECT_EQ(result.time.exposed_communication, Picoseconds(20));
  EXPECT_EQ(result.time.imbalance, Time());
  EXPECT_EQ(result.time.idle, Picoseconds(5));
}

// Ready at 30, it starts at 42, when the last member arrives: 12 of the 20 are imbalance. Waiting
// for its communicator until 35 is communication.
TEST(TimeBreakdown, WaitingForAnotherMemberIsImbalance) {
  program::Program program = Six();
  program.step[2].stream = 0;
  program::OperationRecord late = Ran(2, 30, 50);
  late.start = Picoseconds(42);
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 10), Ran(1, 10, 30), late, Ran(3, 50, 55)};
  Breakdown result = BreakDown(program, timeline, Time(), Picoseconds(60), Picoseconds(60));
  EXPECT_EQ(result.time.imbalance, Picoseconds(12));
  EXPECT_EQ(result.time.exposed_communication, Picoseconds(8));
  EXPECT_EQ(result.time.idle, Picoseconds(5));
  timeline.operations.insert(timeline.operations.begin() + 2, Ran(2, 5, 35));
  result = BreakDown(program, timeline, Time(), Picoseconds(60), Picoseconds(60));
  EXPECT_EQ(result.time.imbalance, Picoseconds(7));
  EXPECT_EQ(result.time.exposed_communication, Picoseconds(13));
}

// The last peer reaches the exchange at 42: until then this stage waits for the pipeline.
TEST(TimeBreakdown, WaitingForAPeerIsPipelineBubble) {
  program::Program program = Six();
  program.streams.resize(3);
  program.exchanges = {{.communicator = 0, .messages = {{.peer = 1, .bytes = Bytes(8)}}}};
  program.events.resize(1);
  program.step[5].operand = 0;
  program.step[2].opcode = Opcode::kExchange;
  program.step[2].stream = 0;
  program::OperationRecord late = Ran(2, 30, 50);
  late.start = Picoseconds(42);
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 10), Ran(1, 10, 30), late, Ran(3, 50, 55)};
  const Breakdown result = BreakDown(program, timeline, Time(), Picoseconds(60), Picoseconds(60));
  EXPECT_EQ(result.time.pipeline_bubble, Picoseconds(12));
  EXPECT_EQ(result.time.exposed_communication, Picoseconds(8));
  EXPECT_EQ(result.time.imbalance, Time());
  EXPECT_EQ(result.time.idle, Picoseconds(5));
}

// The compute stream waits from 30 to 50 for an exchange that starts at 36. Another exchange that
// waits for its peer until 48 is no bubble.
TEST(TimeBreakdown, TheExchangeThatIsWaitedForCounts) {
  program::Program program = Six();
  program.streams.resize(3);
  program.events.resize(1);
  program.communicators.resize(2);
  program.exchanges = {{.communicator = 0, .messages = {{.peer = 1, .bytes = Bytes(8)}}},
                       {.communicator = 1, .messages = {{.peer = 2, .bytes = Bytes(8)}}}};
  program.step = {
      {.opcode = Opcode::kKernel, .phase = Phase::kForward, .stream = 0},
      {.opcode = Opcode::kExchange, .phase = Phase::kForward, .stream = 1, .operand = 0},
      {.opcode = Opcode::kRecordEvent, .phase = Phase::kForward, .stream = 1, .operand = 0},
      {.opcode = Opcode::kExchange, .phase = Phase::kForward, .stream = 2, .operand = 1},
      {.opcode = Opcode::kWaitEvent, .phase = Phase::kForward, .stream = 0, .operand = 0}};
  program::OperationRecord awaited = Ran(1, 20, 50), other = Ran(3, 20, 55);
  awaited.start = Picoseconds(36);
  other.start = Picoseconds(48);
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 30), awaited, other};
  timeline.waits = {{.instruction = 4, .start = Picoseconds(30), .end = Picoseconds(50)}};
  const Breakdown result = BreakDown(program, timeline, Time(), Picoseconds(50), Picoseconds(50));
  EXPECT_EQ(result.time.pipeline_bubble, Picoseconds(6));
  EXPECT_EQ(result.time.exposed_communication, Picoseconds(14));
}

// As above, but the second stream is the host's data loading, so the time is exposed.
TEST(TimeBreakdown, TheHostsWorkIsNoPhase) {
  program::Program program = Six();
  program.streams.resize(3);
  program.kernels.resize(2);
  program.kernels[1].on_host = true;
  program.step[4].operand = 1;
  for (const program::Index kernel : {0, 1, 3}) program.step[kernel].operand = 0;
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 10), Ran(1, 10, 30), Ran(4, 35, 40), Ran(2, 20, 50),
                         Ran(3, 50, 55)};
  timeline.waits = {{.instruction = 5, .start = Picoseconds(30), .end = Picoseconds(50)}};
  const Breakdown result = BreakDown(program, timeline, Time(), Picoseconds(60), Picoseconds(60));
  EXPECT_EQ(result.time.phase[1], Picoseconds(20));
  EXPECT_EQ(result.time.exposed_communication, Picoseconds(20));
}

// A collective that no operation waits for is not exposed; the device is idle for another reason.
TEST(TimeBreakdown, CommunicationWithoutAWaiterIsIdle) {
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 10), Ran(2, 10, 30), Ran(3, 30, 40)};
  const Breakdown result = BreakDown(Six(), timeline, Time(), Picoseconds(40), Picoseconds(40));
  EXPECT_EQ(result.time.exposed_communication, Time());
  EXPECT_EQ(result.time.idle, Picoseconds(20));
}

// At a barrier the host waits for all issued work, so the same collective is exposed.
TEST(TimeBreakdown, ABarrierWaits) {
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 10), Ran(2, 10, 30)};
  const Breakdown result =
      BreakDown(Six(), timeline, Time(), Picoseconds(30), /*host_waits=*/Picoseconds(5));
  EXPECT_EQ(result.time.exposed_communication, Picoseconds(20));
  EXPECT_EQ(result.time.idle, Time());
}

// Operations are cut at the window's ends.
TEST(TimeBreakdown, CountsOnlyTheWindow) {
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 10), Ran(1, 10, 30)};
  const Breakdown result =
      BreakDown(Six(), timeline, Picoseconds(5), Picoseconds(15), Picoseconds(15));
  EXPECT_EQ(result.time.phase[0], Picoseconds(5));
  EXPECT_EQ(result.time.phase[1], Picoseconds(5));
  EXPECT_EQ(result.time.idle, Time());
}

}  // namespace
}  // namespace stepcast::forecast
