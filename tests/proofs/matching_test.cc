#include "tests/proofs/matching.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/examples/test_program.h"

namespace stepcast::program {
namespace {

// A pipeline rank with a buffer to send from and receive into.
struct Stage {
  Stage(int rank, int ranks, int streams = 1) : test(streams) {
    std::vector<int> group;
    for (int r = 0; r < ranks; ++r) group.push_back(r);
    pipeline = test.AddCommunicator("pipeline", group);
    test.program().rank = rank;
    test.Step();
  }
  Stage& Send(int peer, int bytes = 8, int stream = 0) {
    test.Exchange(stream, test.AddExchange(pipeline, {TestProgram::Send(peer, Bytes(bytes))}));
    return *this;
  }
  Stage& Receive(int peer, int bytes = 8, int stream = 0) {
    test.Exchange(stream, test.AddExchange(pipeline, {TestProgram::Receive(peer, Bytes(bytes))}));
    return *this;
  }
  TestProgram test;
  Index pipeline;
};

std::vector<std::string> Messages(const std::vector<Stage>& stages, ViolationKind kind) {
  std::vector<RankProgram> ranks;
  for (const Stage& stage : stages) {
    ranks.push_back({.rank = stage.test.program().rank, .program = &stage.test.program()});
  }
  std::vector<std::string> messages;
  for (const Violation& violation : ValidateTogether(ranks)) {
    EXPECT_EQ(violation.kind, kind) << violation;
    messages.push_back(violation.message);
  }
  return messages;
}
using Kind = ViolationKind;

TEST(MatchingTest, AChainGoesTogether) {
  std::vector<Stage> stages;
  for (int r = 0; r < 3; ++r) stages.emplace_back(r, 3);
  stages[0].Send(1).Send(1, 16).Receive(1, 4);
  stages[1].Receive(0).Send(2).Receive(0, 16).Send(2, 16).Receive(2, 4).Send(0, 4);
  stages[2].Receive(1).Receive(1, 16).Send(1, 4);
  EXPECT_TRUE(Messages(stages, Kind::kMismatch).empty());
}

TEST(MatchingTest, BytesDiffer) {
  std::vector<Stage> stages;
  for (int r = 0; r < 2; ++r) stages.emplace_back(r, 2);
  stages[0].Send(1).Send(1, 16);
  stages[1].Receive(0).Receive(0, 32);
  EXPECT_EQ(Messages(stages, Kind::kMismatch),
            (std::vector<std::string>{
                "rank 0, step[1] send to position 1 on communicator 'pipeline' on stream "
                "'compute': message 1 to rank 1 has 16 B bf16, but rank 1, step[1] receive from "
                "position 0 on communicator 'pipeline' on stream 'compute' receives 32 B bf16 "
                "from this rank"}));
}

TEST(MatchingTest, AnEndIsMissing) {
  std::vector<Stage> stages;
  for (int r = 0; r < 2; ++r) stages.emplace_back(r, 2);
  stages[0].Send(1).Send(1, 16).Receive(1);
  stages[1].Receive(0);
  EXPECT_EQ(Messages(stages, Kind::kMismatch),
            (std::vector<std::string>{
                "rank 0, step[1] send to position 1 on communicator 'pipeline' on stream "
                "'compute': rank 1 does not receive message 1, which has 16 B",
                "rank 0, step[2] receive from position 1 on communicator 'pipeline' on stream "
                "'compute': rank 1 does not send message 0, which has 8 B"}));
}

TEST(MatchingTest, TwoSendsThatFaceEachOther) {
  std::vector<Stage> stages;
  for (int r = 0; r < 2; ++r) stages.emplace_back(r, 2);
  stages[0].Send(1).Receive(1);
  stages[1].Send(0).Receive(0);
  EXPECT_EQ(Messages(stages, Kind::kDeadlock),
            (std::vector<std::string>{
                "rank 0, step[0] send to position 1 on communicator 'pipeline' on stream "
                "'compute' waits forever for rank 1, which waits at step[0] send to position 0 "
                "on communicator 'pipeline' on stream 'compute'",
                "rank 1, step[0] send to position 0 on communicator 'pipeline' on stream "
                "'compute' waits forever for rank 0, which waits at step[0] send to position 1 "
                "on communicator 'pipeline' on stream 'compute'"}));
}

// One exchange with both is no deadlock; nor are two streams with a communicator each.
TEST(MatchingTest, SendsThatFaceEachOtherInOneExchange) {
  std::vector<Stage> stages;
  for (int r = 0; r < 2; ++r) {
    Stage& stage = stages.emplace_back(r, 2);
    stage.test.Exchange(
        0, stage.test.AddExchange(stage.pipeline, {TestProgram::Send(1 - r, Bytes(8)),
                                                   TestProgram::Receive(1 - r, Bytes(8))}));
  }
  EXPECT_TRUE(Messages(stages, Kind::kDeadlock).empty());
}

TEST(MatchingTest, SendsThatFaceEachOtherOnCommunicatorsOfTheirOwn) {
  std::vector<Stage> stages;
  for (int r = 0; r < 2; ++r) {
    Stage& stage = stages.emplace_back(r, 2, 2);
    const Index back = stage.test.AddCommunicator("back", {0, 1});
    const auto add = [&](int stream, Index communicator, Message message) {
      stage.test.Exchange(stream, stage.test.AddExchange(communicator, {message}));
    };
    const Message send = TestProgram::Send(1 - r, Bytes(8));
    const Message receive = TestProgram::Receive(1 - r, Bytes(8));
    add(0, r == 0 ? stage.pipeline : back, send);
    add(1, r == 0 ? back : stage.pipeline, receive);
  }
  EXPECT_TRUE(Messages(stages, Kind::kDeadlock).empty());
}

// Rank 0 has its all-reduce before its send, rank 1 after its receive.
TEST(MatchingTest, CollectivesAndExchangesInADifferentOrder) {
  std::vector<Stage> stages;
  for (int r = 0; r < 2; ++r) stages.emplace_back(r, 2);
  const auto all_reduce = [](Stage& stage) {
    stage.test.Communicate(
        0, stage.test.AddCollective(CollectiveKind::kAllReduce, stage.pipeline, Bytes(64)));
  };
  all_reduce(stages[0]);
  stages[0].Send(1);
  stages[1].Receive(0);
  all_reduce(stages[1]);
  const auto messages = Messages(stages, Kind::kDeadlock);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0],
            "rank 0, step[0] all_reduce on communicator 'pipeline' on stream 'compute' waits "
            "forever for rank 1, which waits at step[0] receive from position 0 on communicator "
            "'pipeline' on stream 'compute'");
}

// The host issues the send only after the received data has been used.
TEST(MatchingTest, AHostThatWaits) {
  std::vector<Stage> stages;
  for (int r = 0; r < 2; ++r) {
    Stage& stage = stages.emplace_back(r, 2);
    const Index event = stage.test.AddEvent("received");
    stage.Receive(1 - r);
    stage.test.Record(0, event).HostWait(event);
    stage.Send(1 - r);
  }
  const auto messages = Messages(stages, Kind::kDeadlock);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0],
            "rank 0, step[2] host-wait-event 'received' waits forever, because rank 0, step[1] "
            "record-event 'received' on stream 'compute' is not reached");
}

}  // namespace
}  // namespace stepcast::program
