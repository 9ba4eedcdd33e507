#include "src/engine/event_queue.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::engine {
namespace {

using Queue = EventQueue<std::uint32_t>;

TEST(EventQueueTest, IsEmptyAtFirst) {
  Queue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.size(), 0u);
}

TEST(EventQueueTest, EarliestComesOutFirst) {
  Queue queue;
  queue.Push(Nanoseconds(3), 30);
  queue.Push(Nanoseconds(1), 10);
  queue.Push(Nanoseconds(2), 20);
  EXPECT_EQ(queue.Top().payload, 10u);
  const Queue::Event first = queue.Pop();
  EXPECT_EQ(first.time, Nanoseconds(1));
  EXPECT_EQ(first.payload, 10u);
  EXPECT_EQ(queue.Pop().payload, 20u);
  EXPECT_EQ(queue.Pop().payload, 30u);
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueueTest, EqualTimesComeOutInTheOrderOfPushing) {
  Queue queue;
  // Payloads fall, so an order by payload would show.
  for (std::uint32_t i = 0; i < 100; ++i) queue.Push(Nanoseconds(7), 1000 - i);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(queue.Pop().payload, 1000 - i);
}

TEST(EventQueueTest, ABurstMayGrowWhileItIsTakenOut) {
  Queue queue;
  for (std::uint32_t i = 0; i < 3; ++i) queue.Push(Nanoseconds(7), i);
  queue.Push(Nanoseconds(8), 100);
  queue.Push(Nanoseconds(7), 3);
  queue.Push(Nanoseconds(7), 4);
  EXPECT_EQ(queue.size(), 6u);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(queue.Pop().payload, i);
  queue.Push(Nanoseconds(7), 5);
  EXPECT_EQ(queue.Pop().payload, 4u);
  EXPECT_EQ(queue.Pop().payload, 5u);
  queue.Push(Nanoseconds(7), 6);
  EXPECT_EQ(queue.Top().payload, 6u);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.Pop().payload, 6u);
  EXPECT_EQ(queue.Pop().payload, 100u);
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueueTest, TimesReachBothEndsOfTheirRange) {
  Queue queue;
  queue.Push(Time::Max(), 3);
  queue.Push(Picoseconds(-5), 1);
  queue.Push(Picoseconds(0), 2);
  queue.Push(Time::Max(), 4);
  EXPECT_EQ(queue.Pop().time, Picoseconds(-5));
  EXPECT_EQ(queue.Pop().time, Picoseconds(0));
  EXPECT_EQ(queue.Pop().payload, 3u);
  const Queue::Event last = queue.Pop();
  EXPECT_EQ(last.time, Time::Max());
  EXPECT_EQ(last.payload, 4u);
}

TEST(EventQueueTest, OrderSurvivesTheEndOfTheSequenceNumbers) {
  // Three numbers are left; the fourth push gives the waiting events new ones.
  Queue queue(Queue::kLastSequence - 3);
  for (std::uint32_t i = 0; i < 10; ++i) queue.Push(Nanoseconds(i % 2), i);
  std::vector<std::uint32_t> order;
  while (!queue.empty()) order.push_back(queue.Pop().payload);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 2, 4, 6, 8, 1, 3, 5, 7, 9}));
}

TEST(EventQueueTest, ClearForgetsEverything) {
  Queue queue;
  for (std::uint32_t i = 0; i < 50; ++i) queue.Push(Nanoseconds(i), i);
  queue.Clear();
  EXPECT_TRUE(queue.empty());
  queue.Push(Nanoseconds(9), 1);
  EXPECT_EQ(queue.Pop().payload, 1u);
}

// Against the definition: of the events in the queue, the smallest (time, order of pushing).
RC_GTEST_PROP(EventQueueTest, AgreesWithASortedList, ()) {
  // Few times, so that some are pushed several times in a row; sequence numbers run out on the way.
  const auto operations = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-4, 5));
  Queue queue(Queue::kLastSequence - 8);
  std::vector<std::tuple<std::int64_t, std::uint32_t>> model;
  std::uint32_t pushed = 0;
  for (const int operation : operations) {
    if (operation >= 0) {
      queue.Push(Picoseconds(operation), pushed);
      model.emplace_back(operation, pushed);
      ++pushed;
    } else if (!model.empty()) {
      const auto least = std::min_element(model.begin(), model.end());
      const Queue::Event event = queue.Pop();
      RC_ASSERT(event.time.picoseconds() == std::get<0>(*least));
      RC_ASSERT(event.payload == std::get<1>(*least));
      model.erase(least);
    }
    RC_ASSERT(queue.size() == model.size());
  }
}

}  // namespace
}  // namespace stepcast::engine
