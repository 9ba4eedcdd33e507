#include "src/runtime/host/memory_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

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

class Memory {
 public:
  Memory(std::int64_t size, std::uint64_t seed) : size_(size), data_(MapRandomPages(size, seed)) {}
  ~Memory() {
    if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(size_));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::int64_t size_;
  std::byte* data_;
};

float FloatAt(const std::byte* data) {
  float value = 0;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

// The number of pages that this process has touched for the first time.
long Faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

TEST(RandomPages, AreNeitherZeroNorUnreasonable) {
  const Memory memory(300 * 4096, 7);
  ASSERT_NE(memory.data(), nullptr);
  for (std::int64_t at = 0; at < 300 * 4096; at += 4) {
    ASSERT_GE(std::abs(FloatAt(memory.data() + at)), 1.0f / 128);
    ASSERT_LT(std::abs(FloatAt(memory.data() + at)), 2.0f);
  }
}

// A gradient bucket of 500 million elements in 16 bits has a quarter of a million pages.
TEST(RandomPages, CostNothingUntilTheyAreTouched) {
  constexpr std::int64_t kSize = 1'000'001'536;
  const Memory warm(4096, 0);
  const long before = Faults();
  const Memory memory(kSize, 5000);
  ASSERT_NE(memory.data(), nullptr);
  for (std::int64_t at = 0; at < kSize; at += 50'000'000) {
    EXPECT_GE(std::abs(FloatAt(memory.data() + at)), 1.0f / 128);
    memory.data()[at] = std::byte{1};
  }
  EXPECT_LT(Faults() - before, 2000);
}

TEST(RandomPages, AreTheWritersOwnOnceWritten) {
  const Memory one(1 << 25, 3), same(1 << 25, 3);
  std::memset(one.data(), 0, 1 << 25);
  EXPECT_EQ(FloatAt(one.data()), 0.0f);
  for (const std::int64_t at : {0, 4096, (1 << 24) - 4, 1 << 24, (1 << 25) - 4}) {
    EXPECT_NE(FloatAt(same.data() + at), 0.0f);
  }
}

TEST(RandomPages, BeginElsewhereWithAnotherSeed) {
  const Memory one(4096, 1), same(4096, 1), other(4096, 2);
  EXPECT_EQ(std::memcmp(one.data(), same.data(), 4096), 0);
  EXPECT_NE(std::memcmp(one.data(), other.data(), 4096), 0);
}

// Runs in a child process, since the limit and the file apply to a whole process.
TEST(RandomPagesDeathTest, AreTheSameWhereAFileMayNotBeThatLarge) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto sum = [] {
    const Memory memory(300 * 4096, 77);
    std::uint32_t hash = 0;
    for (std::int64_t at = 0; at < 300 * 4096; ++at) {
      hash = hash * 31 + std::to_integer<std::uint32_t>(memory.data()[at]);
    }
    return static_cast<int>(hash % 251);
  };
  const auto limited = [&] {
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(255);
    std::_Exit(sum());
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(sum()), "");
}

TEST(RandomPages, AreNoneWhereTheSystemHasNoMore) {
  EXPECT_EQ(MapRandomPages(std::int64_t{1} << 52, 1), nullptr);
}

}  // namespace

}  // namespace stepcast::runtime::host
