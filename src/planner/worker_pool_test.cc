#include "src/planner/worker_pool.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/messaging/mailbox.h"
#include "src/messaging/thread_mailbox.h"

namespace stepcast::planner {
namespace {

std::string Doubled(const std::string& item) { return item + item; }

// The results of a run, by item.
std::map<std::int64_t, std::string> RunAll(WorkerPool& pool, std::int64_t count) {
  std::map<std::int64_t, std::string> results;
  const auto run = pool.Run({.count = count,
                             .item = [](std::int64_t i) { return "i" + std::to_string(i); },
                             .done =
                                 [&](std::int64_t i, std::string result) {
                                   EXPECT_TRUE(results.emplace(i, std::move(result)).second)
                                       << "twice: " << i;
                                   return true;
                                 }});
  EXPECT_TRUE(run.has_value());
  return results;
}

void ExpectAll(const std::map<std::int64_t, std::string>& results, std::int64_t count) {
  ASSERT_EQ(static_cast<std::int64_t>(results.size()), count);
  for (const auto& [index, result] : results) {
    EXPECT_EQ(result, Doubled("i" + std::to_string(index)));
  }
}

// Rank 0 runs `lead`, and the others serve it until it ends. Returns how many items the others
// processed.
std::int64_t OverRanks(int ranks, int threads, const std::function<void(WorkerPool&)>& lead) {
  const auto mailboxes = messaging::MakeThreadMailboxes(ranks);
  std::atomic<std::int64_t> elsewhere{0};
  std::vector<std::thread> others;
  for (int rank = 1; rank < ranks; ++rank) {
    others.emplace_back([&, rank] {
      const auto work = [&](const std::string& item) {
        ++elsewhere;
        return Doubled(item);
      };
      EXPECT_TRUE(RunWorker(*mailboxes[static_cast<std::size_t>(rank)], work, threads).has_value());
    });
  }
  {
    const auto pool = MakeMpiPool(*mailboxes[0], Doubled, threads);
    lead(*pool);
  }
  for (std::thread& other : others) other.join();
  return elsewhere;
}

TEST(WorkerPoolTest, ThreadsDoEachItemOnce) {
  for (const int threads : {0, 1, 7}) {
    const auto pool = MakeThreadPool(Doubled, threads);
    ExpectAll(RunAll(*pool, 1000), 1000);
    ExpectAll(RunAll(*pool, 0), 0);
    ExpectAll(RunAll(*pool, 1), 1);
  }
}

TEST(WorkerPoolTest, RanksDoEachItemOnceInEveryRun) {
  OverRanks(4, 2, [](WorkerPool& pool) {
    for (const std::int64_t count : {2000, 0, 1, 3, 500}) ExpectAll(RunAll(pool, count), count);
  });
}

// Rank 0's only thread waits until another rank has done something.
TEST(WorkerPoolTest, OtherRanksTakePart) {
  const auto mailboxes = messaging::MakeThreadMailboxes(2);
  std::atomic<bool> helped{false};
  std::thread other([&] {
    const auto work = [&](const std::string& item) {
      helped = true;
      return Doubled(item);
    };
    EXPECT_TRUE(RunWorker(*mailboxes[1], work, 1).has_value());
  });
  {
    const auto work = [&](const std::string& item) {
      while (!helped) std::this_thread::yield();
      return Doubled(item);
    };
    const auto pool = MakeMpiPool(*mailboxes[0], work, 1);
    ExpectAll(RunAll(*pool, 50), 50);
  }
  other.join();
  EXPECT_TRUE(helped);
}

TEST(WorkerPoolTest, EnoughEndsARunAndNotTheNext) {
  const auto few = [](WorkerPool& pool) {
    std::int64_t calls = 0;
    const auto run =
        pool.Run({.count = 1'000'000,
                  .item = [](std::int64_t i) { return "i" + std::to_string(i); },
                  .done = [&](std::int64_t, const std::string&) { return ++calls < 20; }});
    EXPECT_TRUE(run.has_value());
    EXPECT_EQ(calls, 20);
    ExpectAll(RunAll(pool, 300), 300);
  };
  OverRanks(3, 2, few);
  const auto threads = MakeThreadPool(Doubled, 3);
  few(*threads);
}

TEST(WorkerPoolTest, OutOfMemoryReachesTheCaller) {
  const auto work = [](const std::string& item) -> std::string {
    if (item == "i7") throw std::bad_alloc();
    return item;
  };
  const WorkList list{.count = 100,
                      .item = [](std::int64_t i) { return "i" + std::to_string(i); },
                      .done = [](std::int64_t, const std::string&) { return true; }};
  const auto threads = MakeThreadPool(work, 3);
  EXPECT_THROW(static_cast<void>(threads->Run(list)), std::bad_alloc);
  const auto mailboxes = messaging::MakeThreadMailboxes(1);
  const auto ranks = MakeMpiPool(*mailboxes[0], work, 3);
  EXPECT_THROW(static_cast<void>(ranks->Run(list)), std::bad_alloc);
}

RC_GTEST_PROP(WorkerPoolProperties, EachItemIsDoneOnceOnAnyNumberOfRanksAndThreads, ()) {
  const auto ranks = *rc::gen::inRange(1, 5);
  const auto threads = *rc::gen::inRange(1, 4);
  const auto counts =
      *rc::gen::container<std::vector<std::int64_t>>(3, rc::gen::inRange<std::int64_t>(0, 60));
  OverRanks(ranks, threads, [&](WorkerPool& pool) {
    for (const std::int64_t count : counts) {
      const auto results = RunAll(pool, count);
      RC_ASSERT(static_cast<std::int64_t>(results.size()) == count);
    }
  });
}

}  // namespace
}  // namespace stepcast::planner
