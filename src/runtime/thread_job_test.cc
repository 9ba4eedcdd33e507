#include "src/runtime/thread_job.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace stepcast::runtime {
namespace {

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

}  // namespace
}  // namespace stepcast::runtime
