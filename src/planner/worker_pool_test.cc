#include "src/planner/worker_pool.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/messaging/mailbox.h"

namespace stepcast::planner {
namespace {

// Mailboxes for ranks that are threads of this process, one for each rank.

struct Queues {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<messaging::Message>> by_rank;  // guarded by mutex
};

class ThreadMailbox final : public messaging::Mailbox {
 public:
  ThreadMailbox(std::shared_ptr<Queues> queues, int rank)
      : queues_(std::move(queues)), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(queues_->by_rank.size()); }

  messaging::Attempt<void> Send(int rank, std::string bytes) override {
    {
      const std::lock_guard lock(queues_->mutex);
      queues_->by_rank[static_cast<std::size_t>(rank)].push_back({rank_, std::move(bytes)});
    }
    queues_->changed.notify_all();
    return {};
  }

  messaging::Attempt<std::optional<messaging::Message>> Receive(
      std::chrono::microseconds timeout) override {
    std::unique_lock lock(queues_->mutex);
    std::deque<messaging::Message>& box = queues_->by_rank[static_cast<std::size_t>(rank_)];
    if (!queues_->changed.wait_for(lock, timeout, [&] { return !box.empty(); })) {
      return std::optional<messaging::Message>();
    }
    messaging::Message message = std::move(box.front());
    box.pop_front();
    return message;
  }

  messaging::Attempt<void> Flush() override { return {}; }

 private:
  const std::shared_ptr<Queues> queues_;
  const int rank_;
};

std::vector<std::unique_ptr<messaging::Mailbox>> MakeThreadMailboxes(int ranks) {
  const auto queues = std::make_shared<Queues>();
  queues->by_rank.resize(static_cast<std::size_t>(ranks));
  std::vector<std::unique_ptr<messaging::Mailbox>> mailboxes;
  for (int rank = 0; rank < ranks; ++rank) {
    mailboxes.push_back(std::make_unique<ThreadMailbox>(queues, rank));
  }
  return mailboxes;
}

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
  const auto mailboxes = MakeThreadMailboxes(ranks);
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
  const auto mailboxes = MakeThreadMailboxes(2);
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
  const auto mailboxes = MakeThreadMailboxes(1);
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
