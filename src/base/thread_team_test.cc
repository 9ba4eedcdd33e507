#include "src/base/thread_team.h"

#include <sched.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast {
namespace {

using testing::Each;

TEST(UsableCores, AreThoseThatTheThreadIsBoundTo) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(all), &all), 0);
  int bound_to_one = 0;
  std::thread([&] {
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (::sched_setaffinity(0, sizeof(one), &one) == 0) bound_to_one = UsableCores();
  }).join();
  EXPECT_EQ(bound_to_one, 1);
  EXPECT_EQ(UsableCores(), CPU_COUNT(&all));
}

TEST(ForEachIndex, VisitsEachIndexOnceWithAnyNumberOfThreads) {
  for (const int threads : {0, 1, 7}) {
    ThreadTeam team(threads);
    for (const int count : {0, 1, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
      ForEachIndex(team, count, [&](std::int64_t index, int worker) {
        ++visits[static_cast<std::size_t>(index)];
        EXPECT_GE(worker, 0);
        EXPECT_LE(worker, team.size());
      });
      EXPECT_THAT(std::vector<int>(visits.begin(), visits.end()), Each(1));
    }
  }
}

// Only one thread at a time has a given worker number, so data kept by number needs no lock.
TEST(ForEachIndex, TellsWorkersApart) {
  ThreadTeam team(3);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> shared{false};
  ForEachIndex(team, 1000, [&](std::int64_t, int worker) {
    if (++inside[static_cast<std::size_t>(worker)] > 1) shared = true;
    std::this_thread::yield();
    --inside[static_cast<std::size_t>(worker)];
  });
  EXPECT_FALSE(shared);
}

TEST(ForEachIndex, EndsWithAnExceptionAndCanBeUsedAgain) {
  for (const int threads : {0, 3}) {
    ThreadTeam team(threads);
    std::atomic<int> visits{0};
    try {
      ForEachIndex(team, 1'000'000, [&](std::int64_t index, int) {
        ++visits;
        if (index == 10) throw std::runtime_error("enough");
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()), "enough");
    }
    EXPECT_LT(visits, 1'000'000);
    visits = 0;
    ForEachIndex(team, 100, [&](std::int64_t, int) { ++visits; });
    EXPECT_EQ(visits, 100);
  }
}

TEST(ThreadTeam, EveryThreadDoesItsPartOfEachRun) {
  ThreadTeam team(3);
  ASSERT_EQ(team.size(), 3);
  std::vector<std::atomic<int>> parts(3);
  const std::function<void(int)> part = [&](int thread) {
    ++parts[static_cast<std::size_t>(thread)];
  };
  for (int run = 0; run < 100; ++run) {
    team.Begin(part);
    team.Join();
  }
  EXPECT_THAT(std::vector<int>(parts.begin(), parts.end()), Each(100));
}

}  // namespace
}  // namespace stepcast
