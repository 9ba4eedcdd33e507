#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/program/program.h"
#include "src/program/validator.h"
#include "tests/examples/test_program.h"

namespace stepcast::program {
namespace {

constexpr Bytes kSize = Bytes(64);

std::vector<ViolationKind> Kinds(const TestProgram& test) {
  std::vector<ViolationKind> kinds;
  for (const Violation& violation : CheckRaces(test.program())) kinds.push_back(violation.kind);
  return kinds;
}

// The one violation of a program that has exactly one.
Violation Only(const TestProgram& test) {
  const std::vector<Violation> violations = CheckRaces(test.program());
  EXPECT_EQ(violations.size(), 1u);
  for (std::size_t i = 1; i < violations.size(); ++i) ADD_FAILURE() << violations[i];
  return violations.empty() ? Violation() : violations.front();
}

using Kind = ViolationKind;
const std::vector<Violation> kSound;

TEST(RaceCheckTest, AnEmptyProgramIsSound) { EXPECT_EQ(CheckRaces(Program()), kSound); }

// Rules that order two conflicting uses.

TEST(RaceCheckTest, AStreamOrdersItsOperations) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x);
  test.Kernel(0, "write", {test.Write(x)}).Kernel(0, "read", {test.Read(x)}).Release(x);
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, StreamsAreNotOrderedByThemselves) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step();
  // One race within the step, and one of the next step's write with this step's read.
  test.Kernel(0, "write", {test.Write(x)}).Label("layer").Kernel(1, "read", {test.Read(x)});
  const std::vector<Violation> violations = CheckRaces(test.program());
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].kind, Kind::kRace);
  EXPECT_FALSE(violations[0].in_prologue);
  EXPECT_EQ(violations[0].instruction, 1u);
  EXPECT_EQ(violations[0].message,
            "step[1] kernel 'read' of 'layer' on stream 'side1' reads bytes [0, 64) of buffer 'x' "
            "but is not ordered after step[0] kernel 'write' on stream 'compute' which writes "
            "these bytes");
  EXPECT_EQ(violations[1].instruction, 0u);
  EXPECT_EQ(violations[1].message,
            "step[0] kernel 'write' on stream 'compute' writes bytes [0, 64) of buffer 'x' but is "
            "not ordered after step[1] kernel 'read' of 'layer' on stream 'side1', issued in the "
            "previous step, which reads these bytes");
}

TEST(RaceCheckTest, TwoReadsDoNotConflict) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step();
  test.Kernel(0, "read", {test.Read(x)}).Kernel(1, "read too", {test.Read(x)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, RangesThatOnlyTouchDoNotConflict) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step();
  test.Kernel(0, "left", {TestProgram::Write(x, 0, 32)});
  test.Kernel(1, "right", {TestProgram::Write(x, 32, 64)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, OneByteInCommonIsARace) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step();
  test.Kernel(0, "left", {TestProgram::Write(x, 0, 33)});
  test.Kernel(1, "right", {TestProgram::Write(x, 32, 64)});
  const std::vector<Violation> violations = CheckRaces(test.program());
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_NE(violations[0].message.find("bytes [32, 33)"), std::string::npos);
}

// Two events, there and back, let a step follow itself.
TEST(RaceCheckTest, EventsOrderStreams) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  const Index read = test.AddEvent("read");
  test.Allocate(0, x).Step();
  test.Wait(0, read).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).Record(1, read);
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, WithoutTheWaitForTheStepBeforeTheNextStepRaces) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  test.Allocate(0, x).Step();
  test.Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)});
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kRace);
  EXPECT_EQ(violation.instruction, 0u);
}

TEST(RaceCheckTest, AWaitRefersToTheLatestRecordBeforeIt) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index event = test.AddEvent("event");
  test.Allocate(0, x);
  // In the prologue, so that the step cannot order it: the record comes after the wait.
  test.Kernel(0, "write", {test.Write(x)}).Wait(1, event).Kernel(1, "read", {test.Read(x)});
  test.Record(0, event);
  EXPECT_EQ(Only(test).kind, Kind::kRace);
}

TEST(RaceCheckTest, ARecordDoesNotCoverWhatFollowsIt) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index event = test.AddEvent("event");
  test.Allocate(0, x).Record(0, event).Kernel(0, "write", {test.Write(x)});
  test.Wait(1, event).Kernel(1, "read", {test.Read(x)});
  EXPECT_EQ(Only(test).kind, Kind::kRace);
}

TEST(RaceCheckTest, OrderPassesThroughAThirdStream) {
  TestProgram test(3);
  const Index x = test.AddBuffer("x", kSize);
  const Index first = test.AddEvent("first");
  const Index second = test.AddEvent("second");
  test.Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, first);
  test.Wait(1, first).Record(1, second).Wait(2, second).Kernel(2, "read", {test.Read(x)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, AHostWaitOrdersAllThatIsIssuedLater) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index event = test.AddEvent("event");
  test.Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, event);
  test.HostWait(event).Kernel(1, "read", {test.Read(x)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, AHostTaskIsOrderedWithTheHost) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index y = test.AddBuffer("y", kSize);
  const Index event = test.AddEvent("event");
  test.Allocate(0, x).Allocate(0, y).Kernel(0, "write", {test.Write(x)}).Record(0, event);
  test.HostWait(event).HostTask("update", Time(), {test.Read(x), test.Write(y)});
  test.Kernel(1, "read", {test.Read(y)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, AHostTaskDoesNotWaitForTheDevice) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Kernel(0, "write", {test.Write(x)});
  test.HostTask("update", Time(), {test.Read(x)});
  EXPECT_EQ(Only(test).kind, Kind::kRace);
}

TEST(RaceCheckTest, ACommunicatorOrdersItsCollectives) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index data = test.AddCommunicator("data", {0, 1});
  const Index reduce = test.AddCollective(CollectiveKind::kAllReduce, data, kSize);
  test.Allocate(0, x).Step();
  test.Communicate(0, reduce, {test.Write(x)}).Communicate(1, reduce, {test.Write(x)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, TwoCommunicatorsAreNotOrdered) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index data = test.AddCommunicator("data", {0, 1});
  const Index tensor = test.AddCommunicator("tensor", {0, 2});
  test.Allocate(0, x);
  test.Communicate(0, test.AddCollective(CollectiveKind::kAllReduce, data, kSize), {test.Write(x)});
  test.Communicate(1, test.AddCollective(CollectiveKind::kAllReduce, tensor, kSize),
                   {test.Write(x)});
  EXPECT_EQ(Only(test).kind, Kind::kRace);
}

TEST(RaceCheckTest, AnOperationMayReadAndWriteTheSameBytes) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step().Kernel(0, "in place", {test.Read(x), test.Write(x)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

// A write to the whole buffer follows reads of its parts by several streams: each must be ordered.
TEST(RaceCheckTest, EveryReaderCounts) {
  TestProgram test(3);
  const Index x = test.AddBuffer("x", kSize);
  const Index event = test.AddEvent("event");
  test.Allocate(0, x);
  test.Kernel(1, "left", {TestProgram::Read(x, 0, 32)}).Record(1, event);
  test.Kernel(2, "right", {TestProgram::Read(x, 16, 64)});
  test.Wait(0, event).Kernel(0, "write", {test.Write(x)});
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kRace);
  EXPECT_NE(violation.message.find("'right'"), std::string::npos);
}

// The life of buffers.

TEST(RaceCheckTest, UseBeforeAllocation) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Kernel(0, "write", {test.Write(x)});
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kUseUnallocated);
  EXPECT_EQ(violation.message,
            "step[0] kernel 'write' on stream 'compute' uses buffer 'x', which is not allocated "
            "at that point");
}

TEST(RaceCheckTest, UseAfterRelease) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x).Release(x).Kernel(0, "write", {test.Write(x)});
  EXPECT_EQ(Only(test).kind, Kind::kUseUnallocated);
}

TEST(RaceCheckTest, ReleaseWithoutAllocation) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Release(x);
  EXPECT_EQ(Only(test).kind, Kind::kReleaseUnallocated);
}

// The prologue's allocation is gone after the first step, so only the second step reveals the
// error.
TEST(RaceCheckTest, ReleaseOfWhatOnlyTheFirstStepHas) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step().Release(x);
  EXPECT_EQ(Only(test).kind, Kind::kReleaseUnallocated);
}

TEST(RaceCheckTest, RecordStreamWithoutAllocation) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().RecordStream(0, x);
  EXPECT_EQ(Only(test).kind, Kind::kRecordUnallocated);
}

TEST(RaceCheckTest, AllocationOfWhatIsAllocated) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x).Allocate(0, x).Release(x);
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kAllocatedTwice);
  EXPECT_EQ(violation.instruction, 1u);
}

TEST(RaceCheckTest, WhatAStepAllocatesItReleases) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x);
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kLeak);
  EXPECT_EQ(violation.instruction, 0u);
}

// A buffer may live from one step into the next if the prologue starts the cycle.
TEST(RaceCheckTest, ABufferMayLiveAcrossTheEndOfAStep) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step();
  test.Kernel(0, "read", {test.Read(x)}).Release(x);
  test.Allocate(0, x).Kernel(0, "write", {test.Write(x)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, ReadOfWhatNothingWrote) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x);
  test.Kernel(0, "write", {TestProgram::Write(x, 0, 48)}).Kernel(0, "read", {test.Read(x)});
  test.Release(x);
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kReadUnwritten);
  EXPECT_NE(violation.message.find("bytes [48, 64) of buffer 'x'"), std::string::npos);
}

TEST(RaceCheckTest, AFormerLifeDoesNotCountAsWritten) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Release(x);
  test.Allocate(0, x).Kernel(0, "read", {test.Read(x)}).Release(x);
  EXPECT_EQ(Only(test).kind, Kind::kReadUnwritten);
}

TEST(RaceCheckTest, ThePrologueInitialisesWhatItAllocates) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step().Kernel(0, "read", {test.Read(x)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

// Memory returns to its owner's stream in host order.

TEST(RaceCheckTest, ReleasedWhileAnotherStreamUsesIt) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).Release(x);
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kReleasedInUse);
  EXPECT_EQ(violation.instruction, 5u);
  EXPECT_EQ(violation.message,
            "step[5] release 'x' returns the memory of buffer 'x' to stream 'compute' while "
            "step[4] kernel 'read' on stream 'side1' may still be using it");
}

TEST(RaceCheckTest, TheOwnersStreamMayWaitForTheUse) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  const Index read = test.AddEvent("read");
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).Record(1, read);
  test.Wait(0, read).Release(x);
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, TheHostMayWaitForTheUse) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  const Index read = test.AddEvent("read");
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).Record(1, read);
  test.HostWait(read).Release(x);
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, RecordStreamDelaysTheReuse) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).RecordStream(1, x).Release(x);
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

TEST(RaceCheckTest, RecordStreamCoversOnlyTheStreamItNames) {
  TestProgram test(3);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).RecordStream(1, x);
  test.Wait(2, written).Kernel(2, "read too", {test.Read(x)}).Release(x);
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kReleasedInUse);
  EXPECT_NE(violation.message.find("'read too'"), std::string::npos);
}

// Memory was used before by the owner's stream: another stream must come after that use.
TEST(RaceCheckTest, AnotherStreamsFirstUseMustFollowTheAllocation) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index done = test.AddEvent("done");
  test.Step().Kernel(0, "before").Allocate(0, x).Kernel(1, "write", {test.Write(x)});
  test.Record(1, done).Wait(0, done).Release(x);
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kUsedBeforeAllocation);
  EXPECT_EQ(violation.instruction, 2u);
  EXPECT_EQ(violation.message,
            "step[2] kernel 'write' on stream 'side1' uses buffer 'x', whose memory stream "
            "'compute' may still be using for another buffer");
}

TEST(RaceCheckTest, AnEventBehindTheAllocationIsEnough) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index allocated = test.AddEvent("allocated");
  const Index done = test.AddEvent("done");
  test.Step().Kernel(0, "before").Allocate(0, x).Record(0, allocated).Wait(1, allocated);
  test.Kernel(1, "write", {test.Write(x)}).Record(1, done).Wait(0, done).Release(x);
  EXPECT_EQ(CheckRaces(test.program()), kSound);
}

// The memory was also used by whatever the owner's stream has waited for.
TEST(RaceCheckTest, TheUseMustFollowWhatTheOwnerHasWaitedFor) {
  TestProgram test(3);
  const Index x = test.AddBuffer("x", kSize);
  const Index other = test.AddEvent("other");
  const Index before = test.AddEvent("before");
  const Index done = test.AddEvent("done");
  test.Step().Kernel(2, "other").Record(2, other).Record(0, before).Wait(0, other);
  test.Allocate(0, x).Wait(1, before).Kernel(1, "write", {test.Write(x)});
  test.Record(1, done).Wait(0, done).Release(x);
  EXPECT_EQ(Only(test).kind, Kind::kUsedBeforeAllocation);
}

// Steps repeat their errors; each is reported once. (Only the second step's memory has a previous
// use that the unordered read might conflict with.)
TEST(RaceCheckTest, TheSecondStepDoesNotRepeatTheFirst) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x);
  test.Kernel(0, "write", {test.Write(x)}).Kernel(1, "read", {test.Read(x)});
  test.RecordStream(1, x).Release(x);
  EXPECT_EQ(Kinds(test), (std::vector<Kind>{Kind::kRace, Kind::kUsedBeforeAllocation}));
}

// Exchanges.

TEST(RaceCheckTest, AnExchangeIsOrderedByItsCommunicator) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index pipeline = test.AddCommunicator("pipeline", {0, 1});
  const Index receive = test.AddExchange(pipeline, {test.Receive(1, kSize)});
  const Index send = test.AddExchange(pipeline, {test.Send(1, kSize)});
  test.Allocate(0, x).Step();
  test.Exchange(0, receive, {test.Write(x)}).Exchange(1, send, {test.Read(x)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
  test.Kernel(0, "overwrite", {test.Write(x)});
  EXPECT_EQ(Only(test).message,
            "step[2] kernel 'overwrite' on stream 'compute' writes bytes [0, 64) of buffer 'x' "
            "but is not ordered after step[1] send to position 1 on communicator 'pipeline' on "
            "stream 'side1' which reads these bytes");
}

TEST(RaceCheckTest, MessagesOfAnExchangeDoNotShareBytes) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  const Index ring = test.AddCommunicator("ring", {0, 1, 2});
  const Index shift = test.AddExchange(ring, {test.Send(1, Bytes(32)), test.Receive(-1, Bytes(32))},
                                       PeerNaming::kDistance);
  test.Allocate(0, x).Step();
  test.Exchange(0, shift, {test.Read(x, 0, 32), test.Write(x, 32, 64)});
  EXPECT_EQ(CheckRaces(test.program()), kSound);
  test.Exchange(0, shift, {test.Read(x, 0, 32), test.Write(x, 16, 48)});
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kRace);
  EXPECT_EQ(violation.message,
            "step[1] exchange of 2 messages on communicator 'ring' on stream 'compute' receives "
            "into bytes of buffer 'x' that another message of the same exchange uses");
}

}  // namespace
}  // namespace stepcast::program
