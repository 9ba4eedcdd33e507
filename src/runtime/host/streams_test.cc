#include "src/runtime/host/streams.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace stepcast::runtime::host {
namespace {

// Blocks work until it is opened.
class Gate {
 public:
  Streams::Work Work() {
    return [this](Time&) -> Attempt<void> {
      std::unique_lock lock(mutex_);
      opened_.wait(lock, [this] { return open_; });
      return {};
    };
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

TEST(Streams, AStreamRunsInOrderAndAWaitHoldsItBack) {
  const Clock clock;
  Streams streams(clock, 2, [](const Failure&) {});
  Gate gate;
  std::mutex mutex;
  std::vector<int> ran;
  const auto note = [&](int number) {
    return [&, number](Time&) -> Attempt<void> {
      const std::lock_guard lock(mutex);
      ran.push_back(number);
      return {};
    };
  };
  streams.Issue(0, {0, 0}, gate.Work());
  streams.Issue(0, {1, 0}, note(1));
  streams.IssueWait(1, streams.Now(0), 7);
  streams.Issue(1, {2, 0}, note(2));
  streams.Issue(1, {3, 0}, note(3));
  EXPECT_EQ(streams.Finished(1), 0u);
  gate.Open();
  streams.WaitForAll();
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));

  const std::vector<OperationTimes> times = streams.TakeTimes();
  ASSERT_EQ(times.size(), 4u);
  for (std::size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i].operation.instruction, i);
    EXPECT_LE(times[i].ready, times[i].start);
    EXPECT_LE(times[i].start, times[i].end);
    if (i > 0) {
      EXPECT_LE(times[i - 1].end, times[i].end);
    }
  }
  EXPECT_GE(times[2].ready, times[1].end);
  EXPECT_TRUE(streams.TakeTimes().empty());
}

TEST(Streams, TellsOfWaitsThatWereNotSatisfied) {
  const Clock clock;
  Streams streams(clock, 2, [](const Failure&) {});
  Gate gate;
  streams.Issue(0, {0, 0}, gate.Work());
  const Position held = streams.Now(0);
  streams.IssueWait(1, {0, 0}, 4);  // nothing was issued before: satisfied
  streams.Issue(1, {1, 0}, [](Time&) -> Attempt<void> { return {}; });
  streams.IssueWait(1, held, 5);
  streams.WaitFor({1, 2});
  // The stream reaches its second wait now.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gate.Open();
  streams.WaitForAll();
  const std::vector<WaitTimes> waits = streams.TakeWaits();
  // There may be none if the machine is so busy that 20 ms were not enough.
  ASSERT_LE(waits.size(), 1u);
  if (!waits.empty()) {
    EXPECT_EQ(waits[0].call, 5u);
    EXPECT_LE(waits[0].start, waits[0].end);
  }
}

TEST(Streams, AfterAFailureNothingElseRuns) {
  const Clock clock;
  std::atomic<int> failures = 0;
  Streams streams(clock, 2, [&](const Failure& failure) {
    EXPECT_EQ(failure.message, "broken");
    ++failures;
  });
  std::atomic<int> ran = 0;
  const auto count = [&](Time&) -> Attempt<void> {
    ++ran;
    return {};
  };
  streams.Issue(0, {0, 0},
                [](Time&) -> Attempt<void> { return tl::unexpected(Failure{"broken"}); });
  streams.Issue(0, {1, 0}, count);
  streams.IssueWait(1, streams.Now(0), 0);
  streams.Issue(1, {2, 0}, count);
  streams.WaitForAll();
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(failures, 1);
  ASSERT_TRUE(streams.failure().has_value());
  EXPECT_EQ(streams.failure()->message, "broken");
}

TEST(Streams, TheHostRunsAheadOnlySoFar) {
  const Clock clock;
  Streams streams(clock, 1, [](const Failure&) {});
  Gate gate;
  std::atomic<std::uint64_t> issued = 0;
  constexpr std::uint64_t kAll = 3 * Streams::kRunAhead;
  streams.Issue(0, {0, 0}, gate.Work());
  std::thread host([&] {
    for (std::uint64_t i = 0; i < kAll; ++i) {
      streams.Issue(0, OperationId{}, [](Time&) -> Attempt<void> { return {}; });
      ++issued;
    }
  });
  while (issued < Streams::kRunAhead - 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(issued, Streams::kRunAhead - 1);
  gate.Open();
  host.join();
  streams.WaitForAll();
  EXPECT_EQ(streams.Finished(0), kAll + 1);
}

TEST(Streams, NamesWhatRunsLongest) {
  const Clock clock;
  Progress progress;
  Streams streams(clock, 2, [](const Failure&) {});
  streams.ReportTo(&progress);
  Gate first;
  Gate second;
  std::atomic<bool> second_runs = false;
  streams.Issue(0, {5, 3}, first.Work());
  while (progress.instruction != 5) std::this_thread::yield();
  streams.Issue(1, {6, 3}, [&](Time& start) {
    second_runs = true;
    return second.Work()(start);
  });
  while (!second_runs) std::this_thread::yield();
  EXPECT_EQ(progress.instruction, 5u);
  EXPECT_EQ(progress.step, 3u);
  EXPECT_EQ(progress.operations, 0u);
  first.Open();
  streams.WaitFor({0, 1});
  EXPECT_EQ(progress.instruction, 6u);
  EXPECT_EQ(progress.operations, 1u);
  second.Open();
  streams.WaitForAll();
  EXPECT_EQ(progress.operations, 2u);
}

TEST(Streams, DropsWhatHasNotBegunWhenItEnds) {
  const Clock clock;
  std::atomic<int> ran = 0;
  Gate gate;
  {
    Streams streams(clock, 1, [](const Failure&) {});
    streams.Issue(0, {0, 0}, [&](Time& start) {
      ++ran;
      return gate.Work()(start);
    });
    while (ran == 0) std::this_thread::yield();
    streams.Issue(0, {1, 0}, [&](Time&) -> Attempt<void> {
      ++ran;
      return {};
    });
    streams.Stop();
    gate.Open();
  }
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace stepcast::runtime::host
