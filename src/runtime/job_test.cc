#include "src/runtime/job.h"

#include <atomic>
#include <functional>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace stepcast::runtime {
namespace {

TEST(PlacesOf, RanksOfOneHostAreOneNode) {
  const std::vector<Place> places = PlacesOf({{"a"}, {"a"}, {"b"}, {"b"}, {"b"}});
  const std::vector<int> nodes{0, 0, 1, 1, 1};
  const std::vector<int> local_ranks{0, 1, 0, 1, 2};
  const std::vector<int> together{2, 2, 3, 3, 3};
  ASSERT_EQ(places.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(places[i].rank, static_cast<int>(i));
    EXPECT_EQ(places[i].ranks, 5);
    EXPECT_EQ(places[i].node, nodes[i]);
    EXPECT_EQ(places[i].nodes, 2);
    EXPECT_EQ(places[i].local_rank, local_ranks[i]);
    EXPECT_EQ(places[i].local_ranks, together[i]);
  }
}

TEST(PlacesOf, RoundRobinPlacementKeepsHostsTogether) {
  const std::vector<Place> places = PlacesOf({{"a"}, {"b"}, {"a"}, {"b"}});
  EXPECT_EQ(places[2].node, 0);
  EXPECT_EQ(places[2].local_rank, 1);
  EXPECT_EQ(places[3].node, 1);
  EXPECT_EQ(places[3].local_rank, 1);
}

TEST(PlacesOf, LocalRanksAsTheLauncherSays) {
  const std::vector<Place> places = PlacesOf({{"a", 1}, {"a", 0}});
  EXPECT_EQ(places[0].local_rank, 1);
  EXPECT_EQ(places[1].local_rank, 0);
  EXPECT_EQ(places[1].nodes, 1);
}

TEST(PlacesOf, TheSameLocalRankTwiceMeansTwoNodesOfOneName) {
  const std::vector<Place> places = PlacesOf({{"box", 0}, {"box", 1}, {"box", 0}, {"box", 1}});
  EXPECT_EQ(places[1].node, 0);
  EXPECT_EQ(places[2].node, 1);
  EXPECT_EQ(places[3].node, 1);
  EXPECT_EQ(places[3].nodes, 2);
  EXPECT_EQ(places[3].local_ranks, 2);
}

void OnThreads(int ranks, const std::function<void(Job&)>& body) {
  std::vector<std::thread> threads;
  for (std::unique_ptr<Job>& job : MakeThreadJobs(ranks)) {
    threads.emplace_back([&body, own = std::move(job)] { body(*own); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadJob, PlacesAreOneNodesRanks) {
  const auto jobs = MakeThreadJobs(3);
  ASSERT_EQ(jobs.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    const Place& place = jobs[static_cast<std::size_t>(rank)]->place();
    EXPECT_EQ(place.rank, rank);
    EXPECT_EQ(place.ranks, 3);
    EXPECT_EQ(place.local_rank, rank);
    EXPECT_EQ(place.local_ranks, 3);
    EXPECT_EQ(place.node, 0);
    EXPECT_EQ(place.nodes, 1);
    EXPECT_FALSE(place.host.empty());
  }
}

TEST(ThreadJob, NobodyPassesABarrierBeforeAllHaveCome) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 50;
  std::atomic<int> come = 0;
  OnThreads(kRanks, [&](Job& job) {
    for (int round = 1; round <= kRounds; ++round) {
      ++come;
      ASSERT_TRUE(job.Barrier());
      EXPECT_GE(come.load(), round * kRanks);
    }
  });
}

TEST(ThreadJob, GatherIsByRankAndOnlyAtRank0) {
  OnThreads(3, [](Job& job) {
    for (int round = 0; round < 20; ++round) {
      const auto all = job.Gather(fmt::format("{}/{}", job.place().rank, round));
      ASSERT_TRUE(all);
      if (job.place().rank == 0) {
        EXPECT_EQ(*all,
                  (std::vector<std::string>{fmt::format("0/{}", round), fmt::format("1/{}", round),
                                            fmt::format("2/{}", round)}));
      } else {
        EXPECT_TRUE(all->empty());
      }
    }
  });
}

TEST(ThreadJob, BroadcastGivesWhatRank0Gave) {
  OnThreads(3, [](Job& job) {
    for (int round = 0; round < 20; ++round) {
      const auto got = job.Broadcast(fmt::format("{} of rank {}", round, job.place().rank));
      ASSERT_TRUE(got);
      EXPECT_EQ(*got, fmt::format("{} of rank 0", round));
    }
  });
}

TEST(ThreadJob, ARankThatIsGoneIsNamed) {
  OnThreads(3, [](Job& job) {
    ASSERT_TRUE(job.Barrier());
    if (job.place().rank == 1) return;  // its job is destroyed with the thread
    const auto met = job.Barrier();
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().message, "rank 1 has ended");
  });
}

TEST(ThreadJob, ARankThatLeavesAfterTheLastMeetingDisturbsNobody) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    OnThreads(3, [](Job& job) { EXPECT_TRUE(job.Gather("last")); });
  }
}

TEST(ThreadJob, OneRankMeetsItself) {
  OnThreads(1, [](Job& job) {
    EXPECT_TRUE(job.Barrier());
    EXPECT_EQ(job.Gather("a").value(), std::vector<std::string>{"a"});
    EXPECT_EQ(job.Broadcast("b").value(), "b");
  });
}

using messaging::Launch;
using messaging::Launcher;

TEST(StartLimit, EndsAProcessWhoseOthersDoNotCome) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const Launch launch{.launcher = Launcher::kMpi, .rank = 0, .ranks = 3};
  EXPECT_EXIT(
      {
        const StartLimit limit(launch, std::chrono::milliseconds(100));
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      testing::ExitedWithCode(1),
      "stepcast: rank 0 on '.*': some of the 3 ranks have not started within 0.1 s");
}

TEST(StartLimit, MeansNothingOnceAllHaveMet) {
  { const StartLimit limit(Launch{}, std::chrono::milliseconds(50)); }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace

}  // namespace stepcast::runtime
