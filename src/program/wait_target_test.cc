#include "gtest/gtest.h"
#include "src/program/instruction.h"
#include "tests/examples/test_program.h"

namespace stepcast::program {
namespace {

WaitTargets Find(const TestProgram& test) {
  WaitTargets targets;
  FindWaitTargets(test.program(), targets);
  return targets;
}

TEST(WaitTargetTest, TheLatestRecordOfTheStepCounts) {
  TestProgram test(2);
  const Index event = test.AddEvent("event");
  test.Record(0, event).Step();
  test.Record(0, event).Record(1, event).Wait(0, event).Record(0, event).HostWait(event);
  const WaitTargets targets = Find(test);
  EXPECT_EQ(targets.step[2], (WaitTarget{1, false, kNone}));
  EXPECT_EQ(targets.step[4], (WaitTarget{3, false, kNone}));
}

TEST(WaitTargetTest, ARecordFurtherDownIsThatOfTheStepBefore) {
  TestProgram test(1);
  const Index event = test.AddEvent("event");
  test.Record(0, event).Record(0, event).Step();
  test.Wait(0, event).Record(0, event).Kernel(0, "k").Record(0, event);
  EXPECT_EQ(Find(test).step[0], (WaitTarget{3, true, 1}));
}

TEST(WaitTargetTest, WithoutARecordInTheStepThePrologueCounts) {
  TestProgram test(1);
  const Index event = test.AddEvent("event");
  const Index never = test.AddEvent("never");
  test.Record(0, event).Step().Wait(0, event).Wait(0, never);
  const WaitTargets targets = Find(test);
  EXPECT_EQ(targets.step[0], (WaitTarget{kNone, false, 0}));
  EXPECT_EQ(targets.step[1], (WaitTarget{kNone, false, kNone}));
}

TEST(WaitTargetTest, ThePrologueLooksBackOnItselfAlone) {
  TestProgram test(1);
  const Index event = test.AddEvent("event");
  test.Wait(0, event).Record(0, event).Wait(0, event).Step().Record(0, event);
  const WaitTargets targets = Find(test);
  EXPECT_EQ(targets.prologue[0].prologue_record, kNone);
  EXPECT_EQ(targets.prologue[2].prologue_record, 1u);
}

}  // namespace
}  // namespace stepcast::program
