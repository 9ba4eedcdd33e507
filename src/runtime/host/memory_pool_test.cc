#include "src/runtime/host/memory_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace stepcast::runtime::host {
namespace {

class MemoryPoolTest : public testing::Test {
 protected:
  MemoryPool Make(Bytes limit) {
    return MemoryPool(buffers_, limit, 1,
                      {[this](std::uint16_t stream) { return finished_[stream]; },
                       [this](std::uint16_t stream) { return issued_[stream]; }});
  }
  program::Index Add(std::int64_t size) {
    program::Buffer buffer;
    buffer.size = Bytes(size);
    buffers_.push_back(buffer);
    return static_cast<program::Index>(buffers_.size() - 1);
  }

  std::vector<program::Buffer> buffers_;
  std::map<std::uint16_t, std::uint64_t> finished_, issued_;
  const std::function<void()> wait_ = [] {};
};

TEST_F(MemoryPoolTest, TheNextBufferOfTheStreamGetsTheSameMemory) {
  const auto a = Add(10'000), b = Add(9'500), c = Add(9'500);
  MemoryPool pool = Make(MiB(1));
  ASSERT_FALSE(pool.Allocate(a, 0, wait_));
  std::byte* const memory = pool.Data(a);
  pool.Release(a);
  EXPECT_EQ(pool.Data(a), nullptr);
  ASSERT_FALSE(pool.Allocate(b, 0, wait_));
  EXPECT_EQ(pool.Data(b), memory);
  ASSERT_FALSE(pool.Allocate(c, 0, wait_));
  EXPECT_NE(pool.Data(c), memory);
}

TEST_F(MemoryPoolTest, AnotherStreamGetsOtherMemory) {
  const auto a = Add(5'000), b = Add(5'000);
  MemoryPool pool = Make(MiB(1));
  ASSERT_FALSE(pool.Allocate(a, 0, wait_));
  std::byte* const memory = pool.Data(a);
  pool.Release(a);
  ASSERT_FALSE(pool.Allocate(b, 1, wait_));
  EXPECT_NE(pool.Data(b), memory);
}

TEST_F(MemoryPoolTest, WhatAnotherStreamUsesIsKeptUntilItIsDone) {
  const auto a = Add(5'000), b = Add(5'000), c = Add(5'000);
  MemoryPool pool = Make(MiB(1));
  ASSERT_FALSE(pool.Allocate(a, 0, wait_));
  std::byte* const memory = pool.Data(a);
  pool.RecordStream(a, 3);
  issued_[3] = 8;
  finished_[3] = 7;
  pool.Release(a);
  ASSERT_FALSE(pool.Allocate(b, 0, wait_));
  EXPECT_NE(pool.Data(b), memory);
  finished_[3] = 8;
  ASSERT_FALSE(pool.Allocate(c, 0, wait_));
  EXPECT_EQ(pool.Data(c), memory);
}

TEST_F(MemoryPoolTest, CountsWhatBuffersHaveAndWhatIsHeldForThem) {
  const auto a = Add(5'000), b = Add(1'000);
  MemoryPool pool = Make(MiB(1));
  ASSERT_FALSE(pool.Allocate(a, 0, wait_));
  pool.Release(a);
  ASSERT_FALSE(pool.Allocate(b, 0, wait_));
  EXPECT_EQ(pool.in_use(), Bytes(1'000));
  EXPECT_EQ(pool.peak(), Bytes(5'000));
  // The first needs two pages. The second cannot reuse them and gets one page.
  EXPECT_EQ(pool.reserved(), Bytes(3 * 4096));
}

TEST_F(MemoryPoolTest, RefusesWhatIsOverTheLimit) {
  const auto a = Add(600'000), b = Add(500'000), c = Add(400'000);
  MemoryPool pool = Make(Bytes(1'000'000));
  ASSERT_FALSE(pool.Allocate(a, 0, wait_));
  EXPECT_EQ(pool.Allocate(b, 0, wait_), MemoryPool::Refusal::kLimit);
  EXPECT_EQ(pool.in_use(), Bytes(600'000));
  EXPECT_FALSE(pool.Allocate(c, 0, wait_));
}

TEST_F(MemoryPoolTest, GivesCachedMemoryBackBeforeItRefuses) {
  const auto a = Add(3 << 20), b = Add(3 << 20);
  MemoryPool pool = Make(MiB(4));
  ASSERT_FALSE(pool.Allocate(a, 0, wait_));
  pool.Release(a);
  bool waited = false;
  ASSERT_FALSE(pool.Allocate(b, 1, [&] { waited = true; }));
  EXPECT_TRUE(waited);
  EXPECT_EQ(pool.reserved(), MiB(3));
}

TEST_F(MemoryPoolTest, SaysSoWhenTheSystemHasNoMore) {
  const auto a = Add(std::int64_t{1} << 52);
  MemoryPool pool = Make(Bytes(std::int64_t{1} << 60));
  EXPECT_EQ(pool.Allocate(a, 0, wait_), MemoryPool::Refusal::kSystem);
  EXPECT_EQ(pool.Data(a), nullptr);
}

}  // namespace
}  // namespace stepcast::runtime::host
