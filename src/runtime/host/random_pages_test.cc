#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "src/runtime/host/memory_pool.h"

namespace stepcast::runtime::host {
namespace {

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
