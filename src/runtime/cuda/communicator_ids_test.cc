#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/runtime/cuda/communicators.h"
#include "src/runtime/job.h"
#include "tests/examples/test_program.h"

namespace stepcast::runtime::cuda {
namespace {

using testing::ElementsAre;

// The ids that each of four ranks gets; "RANK#n" is the n-th id that a rank makes. The groups are
// those of hybrid sharding over 2 x 2 ranks: all four, neighbors, and every second one. `held`: by
// rank and communicator.
std::vector<std::vector<std::string>> Exchange(const std::vector<std::vector<bool>>& held = {
                                                   4, {false, false, false}}) {
  std::vector<std::unique_ptr<Job>> jobs = MakeThreadJobs(4);
  std::vector<std::vector<std::string>> got(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      program::TestProgram program(1);
      program.AddCommunicator("data", {0, 1, 2, 3});
      program.AddCommunicator("shard", {rank / 2 * 2, rank / 2 * 2 + 1});
      program.AddCommunicator("replica", {rank % 2, rank % 2 + 2});
      int made = 0;
      const auto make = [&]() -> Attempt<std::string> {
        // Ids are binary and may contain zeros.
        return std::to_string(rank) + std::string("#\0", 2) + std::to_string(made++);
      };
      auto ids = ExchangeCommunicatorIds(program.program(), *jobs[rank], held[rank], make);
      if (ids) got[rank] = *ids;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return got;
}

std::string Id(int rank, int made) {
  return std::to_string(rank) + std::string("#\0", 2) + std::to_string(made);
}

TEST(ExchangeCommunicatorIds, GivesEveryGroupTheIdOfItsFirstRank) {
  const auto got = Exchange();
  // Rank 0 is first in three groups, 1 in one replica group, 2 in one shard group.
  EXPECT_THAT(got[0], ElementsAre(Id(0, 0), Id(0, 1), Id(0, 2)));
  EXPECT_THAT(got[1], ElementsAre(Id(0, 0), Id(0, 1), Id(1, 0)));
  EXPECT_THAT(got[2], ElementsAre(Id(0, 0), Id(2, 0), Id(0, 2)));
  EXPECT_THAT(got[3], ElementsAre(Id(0, 0), Id(2, 0), Id(1, 0)));
}

// A group makes a new communicator only if one of its members lacks it.
TEST(ExchangeCommunicatorIds, WhatAllMembersHoldGetsNoId) {
  std::vector<std::vector<bool>> held(4, {true, true, true});
  held[3][1] = false;
  const auto got = Exchange(held);
  EXPECT_THAT(got[0], ElementsAre("", "", ""));
  EXPECT_THAT(got[1], ElementsAre("", "", ""));
  EXPECT_THAT(got[2], ElementsAre("", Id(2, 0), ""));
  EXPECT_THAT(got[3], ElementsAre("", Id(2, 0), ""));
}

TEST(ExchangeCommunicatorIds, AProgramWithoutCommunicatorsNeedsNoExchange) {
  auto jobs = MakeThreadJobs(2);
  program::TestProgram program(1);
  // Rank 1 takes no part.
  const auto ids = ExchangeCommunicatorIds(program.program(), *jobs[0], {}, [] {
    return Attempt<std::string>(tl::unexpect, Failure{"not called"});
  });
  ASSERT_TRUE(ids);
  EXPECT_TRUE(ids->empty());
}

TEST(ExchangeCommunicatorIds, AFailureToMakeAnIdIsReported) {
  auto jobs = MakeThreadJobs(1);
  program::TestProgram program(1);
  program.AddCommunicator("data", {0});
  const auto ids = ExchangeCommunicatorIds(program.program(), *jobs[0], {false}, [] {
    return Attempt<std::string>(tl::unexpect, Failure{"no network"});
  });
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().message, "no network");
}

TEST(RankInGroup, FollowsGroupOrder) {
  program::TestProgram program(1);
  program.AddCommunicator("odd", {3, 1});
  EXPECT_EQ(RankInGroup(program.program(), 0, 3), 0);
  EXPECT_EQ(RankInGroup(program.program(), 0, 1), 1);
  EXPECT_EQ(RankInGroup(program.program(), 0, 0), -1);
}

}  // namespace
}  // namespace stepcast::runtime::cuda
