#include "src/program/validator.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/program/program.h"
#include "src/program/test_program.h"

namespace stepcast::program {
namespace {

constexpr Bytes kSize = Bytes(64);

std::vector<ViolationKind> Kinds(const TestProgram& test) {
  std::vector<ViolationKind> kinds;
  for (const Violation& violation : Validate(test.program())) kinds.push_back(violation.kind);
  return kinds;
}

// The one violation of a program that has exactly one.
Violation Only(const TestProgram& test) {
  const std::vector<Violation> violations = Validate(test.program());
  EXPECT_EQ(violations.size(), 1u);
  for (std::size_t i = 1; i < violations.size(); ++i) ADD_FAILURE() << violations[i];
  return violations.empty() ? Violation() : violations.front();
}

using Kind = ViolationKind;
const std::vector<Violation> kSound;

TEST(ValidatorTest, AnEmptyProgramIsSound) { EXPECT_EQ(Validate(Program()), kSound); }

// What puts two conflicting uses in order.

TEST(ValidatorTest, AStreamOrdersItsOperations) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x);
  test.Kernel(0, "write", {test.Write(x)}).Kernel(0, "read", {test.Read(x)}).Release(x);
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, StreamsAreNotOrderedByThemselves) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step();
  // One race within the step, and one of the next step's write with this step's read.
  test.Kernel(0, "write", {test.Write(x)}).Label("layer").Kernel(1, "read", {test.Read(x)});
  const std::vector<Violation> violations = Validate(test.program());
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].kind, Kind::kRace);
  EXPECT_FALSE(violations[0].in_prologue);
  EXPECT_EQ(violations[0].instruction, 1u);
  EXPECT_EQ(violations[0].message,
            "step[1] kernel 'read' of 'layer' on stream 'side1' reads bytes [0, 64) of buffer 'x' "
            "but is not ordered after step[0] kernel 'write' on stream 'compute' which writes "
            "them");
  EXPECT_EQ(violations[1].instruction, 0u);
  EXPECT_EQ(violations[1].message,
            "step[0] kernel 'write' on stream 'compute' writes bytes [0, 64) of buffer 'x' but is "
            "not ordered after step[1] kernel 'read' of 'layer' on stream 'side1', issued in the "
            "step before, which reads them");
}

TEST(ValidatorTest, TwoReadsDoNotConflict) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step();
  test.Kernel(0, "read", {test.Read(x)}).Kernel(1, "read too", {test.Read(x)});
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, RangesThatOnlyTouchDoNotConflict) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step();
  test.Kernel(0, "left", {TestProgram::Write(x, 0, 32)});
  test.Kernel(1, "right", {TestProgram::Write(x, 32, 64)});
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, OneByteInCommonIsARace) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step();
  test.Kernel(0, "left", {TestProgram::Write(x, 0, 33)});
  test.Kernel(1, "right", {TestProgram::Write(x, 32, 64)});
  const std::vector<Violation> violations = Validate(test.program());
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_NE(violations[0].message.find("bytes [32, 33)"), std::string::npos);
}

// Two events, there and back, make a step that can follow itself.
TEST(ValidatorTest, EventsOrderStreams) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  const Index read = test.AddEvent("read");
  test.Allocate(0, x).Step();
  test.Wait(0, read).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).Record(1, read);
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, WithoutTheWaitForTheStepBeforeTheNextStepRaces) {
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

TEST(ValidatorTest, AWaitRefersToTheLatestRecordBeforeIt) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index event = test.AddEvent("event");
  test.Allocate(0, x);
  // In the prologue, so that the step cannot order it: the record comes after the wait.
  test.Kernel(0, "write", {test.Write(x)}).Wait(1, event).Kernel(1, "read", {test.Read(x)});
  test.Record(0, event);
  EXPECT_EQ(Only(test).kind, Kind::kRace);
}

TEST(ValidatorTest, ARecordDoesNotCoverWhatFollowsIt) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index event = test.AddEvent("event");
  test.Allocate(0, x).Record(0, event).Kernel(0, "write", {test.Write(x)});
  test.Wait(1, event).Kernel(1, "read", {test.Read(x)});
  EXPECT_EQ(Only(test).kind, Kind::kRace);
}

TEST(ValidatorTest, OrderPassesThroughAThirdStream) {
  TestProgram test(3);
  const Index x = test.AddBuffer("x", kSize);
  const Index first = test.AddEvent("first");
  const Index second = test.AddEvent("second");
  test.Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, first);
  test.Wait(1, first).Record(1, second).Wait(2, second).Kernel(2, "read", {test.Read(x)});
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, AHostWaitOrdersAllThatIsIssuedLater) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index event = test.AddEvent("event");
  test.Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, event);
  test.HostWait(event).Kernel(1, "read", {test.Read(x)});
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, AHostTaskIsOrderedWithTheHost) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index y = test.AddBuffer("y", kSize);
  const Index event = test.AddEvent("event");
  test.Allocate(0, x).Allocate(0, y).Kernel(0, "write", {test.Write(x)}).Record(0, event);
  test.HostWait(event).HostTask("update", Time(), {test.Read(x), test.Write(y)});
  test.Kernel(1, "read", {test.Read(y)});
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, AHostTaskDoesNotWaitForTheDevice) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Kernel(0, "write", {test.Write(x)});
  test.HostTask("update", Time(), {test.Read(x)});
  EXPECT_EQ(Only(test).kind, Kind::kRace);
}

TEST(ValidatorTest, ACommunicatorOrdersItsCollectives) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index data = test.AddCommunicator("data", {0, 1});
  const Index reduce = test.AddCollective(CollectiveKind::kAllReduce, data, kSize);
  test.Allocate(0, x).Step();
  test.Communicate(0, reduce, {test.Write(x)}).Communicate(1, reduce, {test.Write(x)});
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, TwoCommunicatorsAreNotOrdered) {
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

TEST(ValidatorTest, AnOperationMayReadAndWriteTheSameBytes) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step().Kernel(0, "in place", {test.Read(x), test.Write(x)});
  EXPECT_EQ(Validate(test.program()), kSound);
}

// A write to the whole follows reads of its parts by several streams: each must be ordered.
TEST(ValidatorTest, EveryReaderCounts) {
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

TEST(ValidatorTest, UseBeforeAllocation) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Kernel(0, "write", {test.Write(x)});
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kUseUnallocated);
  EXPECT_EQ(violation.message,
            "step[0] kernel 'write' on stream 'compute' uses buffer 'x', which is not allocated "
            "then");
}

TEST(ValidatorTest, UseAfterRelease) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x).Release(x).Kernel(0, "write", {test.Write(x)});
  EXPECT_EQ(Only(test).kind, Kind::kUseUnallocated);
}

TEST(ValidatorTest, ReleaseWithoutAllocation) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Release(x);
  EXPECT_EQ(Only(test).kind, Kind::kReleaseUnallocated);
}

// The prologue's allocation is gone after the first step: only the second shows it.
TEST(ValidatorTest, ReleaseOfWhatOnlyTheFirstStepHas) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step().Release(x);
  EXPECT_EQ(Only(test).kind, Kind::kReleaseUnallocated);
}

TEST(ValidatorTest, RecordStreamWithoutAllocation) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().RecordStream(0, x);
  EXPECT_EQ(Only(test).kind, Kind::kRecordUnallocated);
}

TEST(ValidatorTest, AllocationOfWhatIsAllocated) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x).Allocate(0, x).Release(x);
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kAllocatedTwice);
  EXPECT_EQ(violation.instruction, 1u);
}

TEST(ValidatorTest, WhatAStepAllocatesItReleases) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x);
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kLeak);
  EXPECT_EQ(violation.instruction, 0u);
}

// A buffer may live from one step into the next, if the prologue begins that cycle.
TEST(ValidatorTest, ABufferMayLiveAcrossTheEndOfAStep) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step();
  test.Kernel(0, "read", {test.Read(x)}).Release(x);
  test.Allocate(0, x).Kernel(0, "write", {test.Write(x)});
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, ReadOfWhatNothingWrote) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x);
  test.Kernel(0, "write", {TestProgram::Write(x, 0, 48)}).Kernel(0, "read", {test.Read(x)});
  test.Release(x);
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kReadUnwritten);
  EXPECT_NE(violation.message.find("bytes [48, 64) of buffer 'x'"), std::string::npos);
}

TEST(ValidatorTest, AFormerLifeDoesNotCountAsWritten) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Release(x);
  test.Allocate(0, x).Kernel(0, "read", {test.Read(x)}).Release(x);
  EXPECT_EQ(Only(test).kind, Kind::kReadUnwritten);
}

TEST(ValidatorTest, ThePrologueInitialisesWhatItAllocates) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Allocate(0, x).Step().Kernel(0, "read", {test.Read(x)});
  EXPECT_EQ(Validate(test.program()), kSound);
}

// Memory goes back to its owner's stream in host order.

TEST(ValidatorTest, ReleasedWhileAnotherStreamUsesIt) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).Release(x);
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kReleasedInUse);
  EXPECT_EQ(violation.instruction, 5u);
  EXPECT_EQ(violation.message,
            "step[5] release 'x' gives the memory of buffer 'x' back to stream 'compute' while "
            "step[4] kernel 'read' on stream 'side1' may still use it");
}

TEST(ValidatorTest, TheOwnersStreamMayWaitForTheUse) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  const Index read = test.AddEvent("read");
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).Record(1, read);
  test.Wait(0, read).Release(x);
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, TheHostMayWaitForTheUse) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  const Index read = test.AddEvent("read");
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).Record(1, read);
  test.HostWait(read).Release(x);
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, RecordStreamDelaysTheReuse) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index written = test.AddEvent("written");
  test.Step().Allocate(0, x).Kernel(0, "write", {test.Write(x)}).Record(0, written);
  test.Wait(1, written).Kernel(1, "read", {test.Read(x)}).RecordStream(1, x).Release(x);
  EXPECT_EQ(Validate(test.program()), kSound);
}

TEST(ValidatorTest, RecordStreamCoversOnlyTheStreamItNames) {
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

// Memory comes from what the owner's stream has used before: another stream must come after that.
TEST(ValidatorTest, AnotherStreamsFirstUseMustFollowTheAllocation) {
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
            "'compute' may still be using as something else");
}

TEST(ValidatorTest, AnEventBehindTheAllocationIsEnough) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index allocated = test.AddEvent("allocated");
  const Index done = test.AddEvent("done");
  test.Step().Kernel(0, "before").Allocate(0, x).Record(0, allocated).Wait(1, allocated);
  test.Kernel(1, "write", {test.Write(x)}).Record(1, done).Wait(0, done).Release(x);
  EXPECT_EQ(Validate(test.program()), kSound);
}

// What the owner's stream has waited for used the memory too.
TEST(ValidatorTest, TheUseMustFollowWhatTheOwnerHasWaitedFor) {
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

// Indices.

TEST(ValidatorTest, EveryWrongIndexIsNamed) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  test.Step();
  test.Add(Opcode::kKernel, 0, 7);
  test.Add(Opcode::kRecordEvent, 0, 0);
  test.Allocate(3, x);
  test.Kernel(0, "beyond the end", {TestProgram::Write(x, 32, 65)});
  test.Kernel(0, "no such buffer", {{5, true, Bytes(0), Bytes(1)}});
  test.program().step[4].label = 9;
  const std::vector<Violation> violations = Validate(test.program());
  std::vector<std::string> messages;
  for (const Violation& violation : violations) {
    EXPECT_EQ(violation.kind, Kind::kIndex);
    messages.push_back(violation.message);
  }
  EXPECT_EQ(messages, (std::vector<std::string>{
                          "step[0] (kernel) has no operand: 7",
                          "step[1] (record-event) has no operand: 0",
                          "step[2] (allocate) has no stream: 3",
                          "step[3] uses bytes [32, 65) of buffer 'x', which has 64",
                          "step[4] (kernel) has no label: 9",
                          "step[4] uses a buffer that does not exist: 5",
                      }));
}

TEST(ValidatorTest, UsesBeyondTheTable) {
  TestProgram test(1);
  test.Step().Kernel(0, "kernel");
  test.program().step[0].use_count = 2;
  EXPECT_EQ(Only(test).kind, Kind::kIndex);
}

TEST(ValidatorTest, TablesAreChecked) {
  TestProgram test(1);
  test.program().communicators.push_back({"data", 4});
  test.program().collectives.push_back({CollectiveKind::kAllReduce, 2, kSize, DataType::kBf16});
  test.program().buffers.push_back({.size = Bytes(-1), .category = Category::kWorkspace});
  test.program().events.push_back({{.first = 7}});
  EXPECT_EQ(Kinds(test),
            (std::vector<Kind>{Kind::kIndex, Kind::kIndex, Kind::kIndex, Kind::kIndex}));
}

// Steps repeat what they do wrong; it is said once. (Only the second step's memory has a former
// life that the unordered read might meet.)
TEST(ValidatorTest, TheSecondStepDoesNotRepeatTheFirst) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  test.Step().Allocate(0, x);
  test.Kernel(0, "write", {test.Write(x)}).Kernel(1, "read", {test.Read(x)});
  test.RecordStream(1, x).Release(x);
  EXPECT_EQ(Kinds(test), (std::vector<Kind>{Kind::kRace, Kind::kUsedBeforeAllocation}));
}

// Exchanges.

TEST(ValidatorTest, AnExchangeIsOrderedByItsCommunicator) {
  TestProgram test(2);
  const Index x = test.AddBuffer("x", kSize);
  const Index pipeline = test.AddCommunicator("pipeline", {0, 1});
  const Index receive = test.AddExchange(pipeline, {test.Receive(1, kSize)});
  const Index send = test.AddExchange(pipeline, {test.Send(1, kSize)});
  test.Allocate(0, x).Step();
  test.Exchange(0, receive, {test.Write(x)}).Exchange(1, send, {test.Read(x)});
  EXPECT_EQ(Validate(test.program()), kSound);
  test.Kernel(0, "overwrite", {test.Write(x)});
  EXPECT_EQ(Only(test).message,
            "step[2] kernel 'overwrite' on stream 'compute' writes bytes [0, 64) of buffer 'x' but "
            "is not ordered after step[1] send to position 1 on communicator 'pipeline' on stream "
            "'side1' which reads them");
}

TEST(ValidatorTest, MessagesOfAnExchangeDoNotShareBytes) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  const Index ring = test.AddCommunicator("ring", {0, 1, 2});
  const Index shift = test.AddExchange(ring, {test.Send(1, Bytes(32)), test.Receive(-1, Bytes(32))},
                                       PeerNaming::kDistance);
  test.Allocate(0, x).Step();
  test.Exchange(0, shift, {test.Read(x, 0, 32), test.Write(x, 32, 64)});
  EXPECT_EQ(Validate(test.program()), kSound);
  test.Exchange(0, shift, {test.Read(x, 0, 32), test.Write(x, 16, 48)});
  const Violation violation = Only(test);
  EXPECT_EQ(violation.kind, Kind::kRace);
  EXPECT_EQ(violation.message,
            "step[1] exchange of 2 messages on communicator 'ring' on stream 'compute' receives "
            "into bytes of buffer 'x' that another of its messages uses");
}

TEST(ValidatorTest, AnExchangeHasPeersBytesAndUses) {
  TestProgram test(1);
  const Index x = test.AddBuffer("x", kSize);
  const Index pipeline = test.AddCommunicator("pipeline", {0, 1});
  test.AddExchange(pipeline, {test.Send(2, kSize)});
  test.AddExchange(pipeline, {test.Send(1, Bytes(-1))}, PeerNaming::kDistance);
  test.AddExchange(7, {test.Send(1, kSize)});
  test.AddExchange(pipeline, {});
  const Index other = test.AddCommunicator("other", {2, 3});
  test.AddExchange(other, {test.Send(1, kSize)});
  const Index both = test.AddExchange(pipeline, {test.Send(1, kSize), test.Receive(1, kSize)});
  test.Allocate(0, x).Step();
  test.Exchange(0, both, {test.Read(x)});
  test.Exchange(0, both, {test.Write(x), test.Write(x, 0, 32)});
  std::vector<std::string> messages;
  for (const Violation& violation : Validate(test.program())) {
    EXPECT_EQ(violation.kind, Kind::kIndex);
    messages.push_back(violation.message);
  }
  EXPECT_EQ(
      messages,
      (std::vector<std::string>{
          "exchanges[0] has no peer in a group of 2: 2",
          "exchanges[0] and exchanges[1] name the peers of communicator 'pipeline' in different "
          "ways",
          "exchanges[1] has a message of less than nothing: -1 B",
          "exchanges[2] has no communicator: 7", "exchanges[3] has no messages",
          "exchanges[4] is on communicator 'other', of which rank 0 is no member",
          "step[0] (exchange) has 2 messages and uses: 1",
          "step[1] (exchange) sends 64 B with message 0, but its use writes: 64 B",
          "step[1] (exchange) receives 64 B with message 1, but its use writes: 32 B"}));
}

}  // namespace
}  // namespace stepcast::program
