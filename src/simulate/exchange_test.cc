// Exchanges computed by hand: classes that send to and receive from each other. Times are in
// nanoseconds.

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/cost/prices.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/simulate/simulate.h"
#include "tests/examples/test_program.h"

namespace stepcast::simulate {
namespace {

using program::Index;
using program::Message;
using program::MessageDirection;
using program::OperationRecord;
using program::PeerNaming;
using program::TestProgram;
using program::Timeline;

Message Send(int peer, int bytes = 8) { return TestProgram::Send(peer, Bytes(bytes)); }
Message Receive(int peer, int bytes = 8) { return TestProgram::Receive(peer, Bytes(bytes)); }

// A rank's program with its prices. A message needs the full rate of a link.
class Rank {
 public:
  Rank(int rank, std::vector<int> group, int streams = 1)
      : rank_(rank),
        test_(streams),
        pipeline_(test_.AddCommunicator("pipeline", std::move(group))) {
    test_.program().rank = rank;
  }

  Rank& Kernel(int work) {
    prices_.kernels.emplace_back().work = Nanoseconds(work);
    test_.Kernel(0, "kernel");
    return *this;
  }
  Rank& Exchange(std::vector<Message> messages, int work = 20, int latency = 0, int stream = 0,
                 PeerNaming peers = PeerNaming::kPosition) {
    std::vector<cost::MessagePrice>& prices = prices_.exchanges.emplace_back();
    for (const Message& message : messages) {
      cost::Demand& demand = prices.emplace_back().demand;
      demand.latency = Nanoseconds(latency);
      demand.work = Nanoseconds(work);
      const auto link = message.direction == MessageDirection::kSend ? cost::Resource::kNetwork
                                                                     : cost::Resource::kNetworkIn;
      demand.share[static_cast<std::size_t>(link)] = 1;
    }
    test_.Exchange(stream, test_.AddExchange(pipeline_, std::move(messages), peers));
    return *this;
  }
  // Makes a message of an exchange, or the last kernel, need all SMs.
  Rank& UsesAllOfTheDevice(std::size_t exchange, std::size_t message) {
    UseAll(prices_.exchanges[exchange][message].demand);
    return *this;
  }
  Rank& KernelUsesAllOfTheDevice() {
    UseAll(prices_.kernels.back());
    return *this;
  }
  Rank& CollectiveUsesAllOfTheDevice() {
    UseAll(prices_.collectives.back().demand);
    return *this;
  }
  Rank& AllReduce(int work, int stream) { return AllReduce(pipeline_, work, stream); }
  // An all-reduce among ranks of its own class.
  Rank& OwnAllReduce(int work, int stream) {
    return AllReduce(test_.AddCommunicator("data", {rank_}), work, stream);
  }
  Rank& AllReduce(Index communicator, int work, int stream) {
    cost::CollectivePrice& price = prices_.collectives.emplace_back();
    price.demand.work = Nanoseconds(work);
    price.demand.share[static_cast<std::size_t>(cost::Resource::kNetwork)] = 1;
    test_.Communicate(stream,
                      test_.AddCollective(CollectiveKind::kAllReduce, communicator, KiB(1)));
    return *this;
  }
  Rank& Step() {
    test_.Step();
    return *this;
  }
  Rank& StandsFor(std::vector<int> ranks) {
    ranks_ = std::move(ranks);
    return *this;
  }
  TestProgram* operator->() { return &test_; }

  RankClass Class() const {
    return {
        .program = &test_.program(), .prices = &prices_, .representative = rank_, .ranks = ranks_};
  }

 private:
  static void UseAll(cost::Demand& demand) {
    demand.share[static_cast<std::size_t>(cost::Resource::kCompute)] = 1;
  }

  int rank_;
  std::vector<int> ranks_;
  TestProgram test_;
  Index pipeline_;
  cost::Prices prices_;
};

std::vector<Timeline> Simulated(const std::vector<const Rank*>& ranks, int steps = 1) {
  std::vector<RankClass> classes;
  for (const Rank* rank : ranks) classes.push_back(rank->Class());
  auto timelines = Simulate(classes, {.steps = steps});
  EXPECT_TRUE(timelines.has_value());
  const auto together = Simulate(classes, {.steps = steps, .run_ahead = false});
  EXPECT_TRUE(together.has_value());
  for (std::size_t c = 0; timelines && together && c < classes.size(); ++c) {
    EXPECT_EQ(timelines->at(c).step_ends, together->at(c).step_ends);
  }
  return timelines ? *std::move(timelines) : std::vector<Timeline>(classes.size());
}

std::vector<std::string> Blocked(const std::vector<const Rank*>& ranks) {
  std::vector<RankClass> classes;
  for (const Rank* rank : ranks) classes.push_back(rank->Class());
  const auto timelines = Simulate(classes, {});
  EXPECT_FALSE(timelines.has_value());
  return timelines.has_value() ? std::vector<std::string>() : timelines.error().blocked;
}

// The record of an instruction of the first step.
OperationRecord RecordOf(const Timeline& timeline, Index instruction) {
  for (const OperationRecord& record : timeline.operations) {
    if (record.instruction == instruction && record.step == 0) return record;
  }
  ADD_FAILURE() << "instruction " << instruction << " has no record";
  return {};
}

#define EXPECT_RECORD(timeline, instruction, ready_ns, start_ns, end_ns) \
  do {                                                                   \
    const OperationRecord record = RecordOf(timeline, instruction);      \
    EXPECT_EQ(record.ready, Nanoseconds(ready_ns));                      \
    EXPECT_EQ(record.start, Nanoseconds(start_ns));                      \
    EXPECT_EQ(record.end, Nanoseconds(end_ns));                          \
  } while (false)

// The receiver has waited since 30 for a message whose sender starts at 100: [30, 100) is pipeline
// bubble, and [100, 125) is communication.
TEST(ExchangeTest, AMessageStartsWhenBothEndsHaveBeenReached) {
  Rank first(0, {0, 1}), second(1, {0, 1});
  first.Step().Kernel(100).Exchange({Send(1)}, 20, 5);
  second.Step().Kernel(30).Exchange({Receive(0)}, 20, 5).Kernel(10);
  const auto timelines = Simulated({&first, &second});
  EXPECT_RECORD(timelines[0], 1, 100, 100, 125);
  EXPECT_RECORD(timelines[1], 1, 30, 100, 125);
  EXPECT_RECORD(timelines[1], 2, 125, 125, 135);
}

// The sender waits for the receiver too.
TEST(ExchangeTest, ASendBlocks) {
  Rank first(0, {0, 1}), second(1, {0, 1});
  first.Step().Kernel(10).Exchange({Send(1)});
  second.Step().Kernel(70).Exchange({Receive(0)});
  const auto timelines = Simulated({&first, &second});
  EXPECT_RECORD(timelines[0], 1, 10, 70, 90);
}

// A link has its full bandwidth in each direction.
TEST(ExchangeTest, BothDirectionsOfALinkAreUsedAtOnce) {
  Rank first(0, {0, 1}), second(1, {0, 1});
  first.Step().Exchange({Send(1), Receive(1)});
  second.Step().Exchange({Send(0), Receive(0)});
  const auto timelines = Simulated({&first, &second});
  EXPECT_RECORD(timelines[0], 0, 0, 0, 20);
  EXPECT_RECORD(timelines[1], 0, 0, 0, 20);
}

// Two sends have half of the link each: 40. If the second peer is late until 30, the first send has
// the link to itself and ends at 20, and the second runs from 30 to 50.
TEST(ExchangeTest, MessagesOfAnExchangeShareTheRanksLinks) {
  Rank first(0, {0, 1, 2}), second(1, {0, 1, 2}), third(2, {0, 1, 2}), late(2, {0, 1, 2});
  first.Step().Exchange({Send(1), Send(2)});
  second.Step().Exchange({Receive(0)});
  third.Step().Exchange({Receive(0)});
  late.Step().Kernel(30).Exchange({Receive(0)});
  const auto timelines = Simulated({&first, &second, &third});
  EXPECT_RECORD(timelines[0], 0, 0, 0, 40);
  EXPECT_RECORD(timelines[1], 0, 0, 0, 40);
  const auto with_late = Simulated({&first, &second, &late});
  EXPECT_RECORD(with_late[0], 0, 0, 30, 50);
  EXPECT_RECORD(with_late[1], 0, 0, 0, 20);
  EXPECT_RECORD(with_late[2], 1, 30, 30, 50);
}

// From 0 to 40 the kernel shares the SMs with the first message, at half of its rate. The second
// message, which the exchange waits for, uses none.
TEST(ExchangeTest, WhatAMessageSlowedGoesOnFasterWhenItHasMoved) {
  Rank first(0, {0, 1, 2}, 2), second(1, {0, 1, 2}), third(2, {0, 1, 2});
  first.Step().Exchange({Send(1), Send(2)}, 20, 0, 1);
  first.UsesAllOfTheDevice(0, 0).Kernel(100).KernelUsesAllOfTheDevice();
  second.Step().Exchange({Receive(0)});
  third.Step().Kernel(300).Exchange({Receive(0)});
  const auto timelines = Simulated({&first, &second, &third});
  EXPECT_RECORD(timelines[1], 0, 0, 0, 40);
  EXPECT_RECORD(timelines[0], 1, 0, 0, 120);
}

// The receive's kernel spins on all SMs until its peer arrives at 60. Until then a concurrent
// kernel runs at half of its rate, and also until the message, which shares with it, has moved: 40
// for 20. From 100 on it runs alone: 100 - 50. An operation without SMs is not slowed.
TEST(ExchangeTest, WhatWaitsForItsPeerHoldsItsMultiprocessors) {
  Rank first(0, {0, 1}), second(1, {0, 1}, 2);
  first.Step().Kernel(60).Exchange({Send(1)});
  second.Step().Exchange({Receive(0)}, 20, 0, 1);
  second.UsesAllOfTheDevice(0, 0).Kernel(100).KernelUsesAllOfTheDevice();
  const auto timelines = Simulated({&first, &second});
  EXPECT_RECORD(timelines[1], 0, 0, 60, 100);
  EXPECT_RECORD(timelines[1], 1, 0, 0, 150);

  Rank other(1, {0, 1}, 2);
  other.Step().Exchange({Receive(0)}, 20, 0, 1).UsesAllOfTheDevice(0, 0).Kernel(100);
  EXPECT_RECORD(Simulated({&first, &other})[1], 1, 0, 0, 100);
}

// The reverse case: the second message's SMs are held until 300.
TEST(ExchangeTest, AMessageOfAnExchangeHoldsItsMultiprocessorsUntilItStarts) {
  Rank first(0, {0, 1, 2}, 2), second(1, {0, 1, 2}), third(2, {0, 1, 2});
  first.Step().Exchange({Send(1), Send(2)}, 20, 0, 1);
  first.UsesAllOfTheDevice(0, 1).Kernel(100).KernelUsesAllOfTheDevice();
  second.Step().Exchange({Receive(0)});
  third.Step().Kernel(300).Exchange({Receive(0)});
  EXPECT_RECORD(Simulated({&first, &second, &third})[0], 1, 0, 0, 200);
}

// A collective at which a class waits holds SMs too.
TEST(ExchangeTest, ACollectiveThatWaitsHoldsItsMultiprocessors) {
  Rank first(0, {0, 1}), second(1, {0, 1}, 2);
  first.Step().Kernel(60).AllReduce(20, 0);
  second.Step().AllReduce(20, 1).CollectiveUsesAllOfTheDevice();
  second.Kernel(100).KernelUsesAllOfTheDevice();
  const auto timelines = Simulated({&first, &second});
  EXPECT_RECORD(timelines[1], 0, 0, 60, 100);
  EXPECT_RECORD(timelines[1], 1, 0, 0, 150);
}

TEST(ExchangeTest, AReceiverIsNoFasterThanItsLink) {
  Rank first(0, {0, 1, 2}), second(1, {0, 1, 2}), third(2, {0, 1, 2});
  first.Step().Exchange({Send(2)});
  second.Step().Exchange({Send(2)});
  third.Step().Exchange({Receive(0), Receive(1)});
  const auto timelines = Simulated({&first, &second, &third});
  EXPECT_RECORD(timelines[2], 0, 0, 0, 40);
  EXPECT_RECORD(timelines[0], 0, 0, 0, 40);
}

// A collective on another communicator receives as much as it sends: half of the ingress. From 40
// on it has the links to itself.
TEST(ExchangeTest, ACollectiveTakesPartOfTheIngress) {
  Rank first(0, {0, 1}), second(1, {0, 1}, 2);
  first.Step().Exchange({Send(1)});
  second.Step().Exchange({Receive(0)}).OwnAllReduce(30, 1);
  const auto timelines = Simulated({&first, &second});
  EXPECT_RECORD(timelines[1], 0, 0, 0, 40);
  EXPECT_RECORD(timelines[1], 1, 0, 0, 50);
}

// Sends and receives are matched by number, on any streams: one communicator runs its exchanges in
// order.
TEST(ExchangeTest, MessagesComeInTheOrderOfTheHost) {
  Rank first(0, {0, 1}, 2), second(1, {0, 1});
  first.Step().Exchange({Send(1, 8)}, 10, 0, 0).Exchange({Send(1, 16)}, 20, 0, 1);
  second.Step().Exchange({Receive(0, 8)}, 10).Exchange({Receive(0, 16)}, 20);
  const auto timelines = Simulated({&first, &second});
  EXPECT_RECORD(timelines[0], 1, 0, 10, 30);
  EXPECT_RECORD(timelines[1], 1, 10, 10, 30);
}

TEST(ExchangeTest, CollectivesAndExchangesTakeTurnsOnACommunicator) {
  Rank first(0, {0, 1}, 2), second(1, {0, 1}, 2);
  for (Rank* rank : {&first, &second}) rank->Step().AllReduce(50, 1);
  first.Exchange({Send(1)});
  second.Exchange({Receive(0)});
  const auto timelines = Simulated({&first, &second});
  EXPECT_RECORD(timelines[1], 1, 0, 50, 70);
}

// Each end has its own price; the slower one counts.
TEST(ExchangeTest, TheSlowerEndSetsThePace) {
  Rank first(0, {0, 1}), second(1, {0, 1});
  first.Step().Exchange({Send(1)}, 20, 7);
  second.Step().Exchange({Receive(0)}, 30, 1);
  const auto timelines = Simulated({&first, &second});
  EXPECT_RECORD(timelines[0], 0, 0, 0, 37);
}

// All ranks of a ring are one class, which sends to itself.
TEST(ExchangeTest, ARingIsOneClass) {
  Rank ring(0, {0, 1, 2, 3});
  ring.Step().Kernel(10).Exchange({Send(1), Receive(-1)}, 20, 0, 0, PeerNaming::kDistance);
  const auto timelines = Simulated({&ring}, 2);
  EXPECT_RECORD(timelines[0], 1, 10, 10, 30);
  EXPECT_EQ(timelines[0].step_ends, (std::vector{Nanoseconds(30), Nanoseconds(60)}));
}

// The same with one class per rank: the slowest rank delays its neighbors, and finally all ranks.
TEST(ExchangeTest, ARingOfClasses) {
  std::vector<Rank> ranks;
  for (int r = 0; r < 3; ++r) {
    ranks.emplace_back(r, std::vector{0, 1, 2});
    ranks.back().Step().Kernel(r == 1 ? 40 : 10);
    ranks.back().Exchange({Send(1), Receive(-1)}, 20, 0, 0, PeerNaming::kDistance);
  }
  const auto timelines = Simulated({&ranks[0], &ranks[1], &ranks[2]});
  // Rank 0 receives from rank 2 at 10; its send waits for rank 1, which arrives at 40.
  EXPECT_RECORD(timelines[0], 1, 10, 40, 60);
  EXPECT_RECORD(timelines[1], 1, 40, 40, 60);
  EXPECT_RECORD(timelines[2], 1, 10, 40, 60);
}

// Four ranks with one program send to a fifth; each sends at a quarter of the rate.
TEST(ExchangeTest, AClassStandsForSeveralPositions) {
  Rank root(0, {0, 1, 2, 3, 4}), leaf(1, {0, 1, 2, 3, 4});
  root.Step().Exchange({Receive(1), Receive(2), Receive(3), Receive(4)});
  leaf.StandsFor({1, 2, 3, 4}).Step().Exchange({Send(0)});
  const auto timelines = Simulated({&root, &leaf});
  EXPECT_RECORD(timelines[0], 0, 0, 0, 80);
  EXPECT_RECORD(timelines[1], 0, 0, 0, 80);
}

// An all-to-all with peers by position, in which each rank also has a message to itself.
TEST(ExchangeTest, AnAllToAllOfOneClass) {
  Rank ranks(0, {0, 1, 2, 3});
  std::vector<Message> messages;
  for (int peer = 0; peer < 4; ++peer) messages.push_back(Send(peer));
  for (int peer = 0; peer < 4; ++peer) messages.push_back(Receive(peer));
  ranks.Step().Exchange(messages);
  const auto timelines = Simulated({&ranks});
  EXPECT_RECORD(timelines[0], 0, 0, 0, 80);
}

TEST(ExchangeTest, TwoBlockingSendsThatFaceEachOtherAreADeadlock) {
  Rank first(0, {0, 1}), second(1, {0, 1});
  first.Step().Exchange({Send(1)}).Exchange({Receive(1)});
  second.Step().Exchange({Send(0)}).Exchange({Receive(0)});
  EXPECT_EQ(Blocked({&first, &second}),
            (std::vector<std::string>{
                "rank 0, step 0: send to position 1 on communicator 'pipeline' on stream "
                "'compute': 8 B to rank 1 wait for rank 1, which has not reached the receive",
                "rank 1, step 0: send to position 0 on communicator 'pipeline' on stream "
                "'compute': 8 B to rank 0 wait for rank 0, which has not reached the receive"}));
}

TEST(ExchangeTest, EndsThatDisagreeAreNamedWithBothSides) {
  Rank first(0, {0, 1}), second(1, {0, 1});
  first.Step().Exchange({Send(1, 8)});
  second.Step().Exchange({Receive(0, 16)});
  EXPECT_EQ(Blocked({&first, &second}),
            (std::vector<std::string>{
                "rank 0, step 0: send to position 1 on communicator 'pipeline' on stream "
                "'compute': 8 B to rank 1 never arrive, because rank 1 receives 16 B of bf16",
                "rank 1, step 0: receive from position 0 on communicator 'pipeline' on stream "
                "'compute': 16 B from rank 0 never arrive, because rank 0 sends 8 B of bf16"}));
}

TEST(ExchangeTest, AReceiveThatNothingIsSentToIsNamed) {
  Rank first(0, {0, 1}), second(1, {0, 1});
  first.Step().Kernel(10);
  second.Step().Exchange({Receive(0)});
  EXPECT_EQ(
      Blocked({&first, &second}),
      (std::vector<std::string>{
          "rank 1, step 0: receive from position 0 on communicator 'pipeline' on stream "
          "'compute': 8 B from rank 0 never arrive, because rank 0 never sends these bytes"}));
}

}  // namespace
}  // namespace stepcast::simulate
