#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "src/runtime/cuda/device_memory.h"

namespace stepcast::runtime::cuda {
namespace {

// A device with `capacity` bytes, whose addresses are never touched.
class FakeSegments final : public Segments {
 public:
  explicit FakeSegments(Bytes capacity) : left_(capacity) {}

  std::byte* Take(Bytes size) override {
    if (size > left_) return nullptr;
    left_ -= size;
    const std::uintptr_t at = next_;
    next_ += static_cast<std::uintptr_t>(size.count()) + (1u << 21);
    held_[at] = size;
    return reinterpret_cast<std::byte*>(at);
  }
  void Give(std::byte* segment) override {
    const auto found = held_.find(reinterpret_cast<std::uintptr_t>(segment));
    ASSERT_NE(found, held_.end());
    left_ += found->second;
    held_.erase(found);
  }

  // Whether [at, at + size) lies in one segment.
  bool Holds(std::byte* at, Bytes size) const {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    auto after = held_.upper_bound(address);
    if (after == held_.begin()) return false;
    --after;
    return address + static_cast<std::uintptr_t>(size.count()) <=
           after->first + static_cast<std::uintptr_t>(after->second.count());
  }
  Bytes held() const {
    Bytes sum;
    for (const auto& [at, size] : held_) sum += size;
    return sum;
  }

 private:
  Bytes left_;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
  std::map<std::uintptr_t, Bytes> held_;
};

TEST(CachingPool, TakesSegmentsOfPyTorchsSizes) {
  FakeSegments device(GiB(1));
  CachingPool pool(device);
  // Small blocks share a segment of 2 MiB, and blocks up to 10 MiB one of 20 MiB. Larger blocks
  // have their own segment, rounded up to 2 MiB: 11 MiB takes 12.
  pool.Allocate(KiB(100), 0);
  EXPECT_EQ(pool.reserved(), MiB(2));
  pool.Allocate(MiB(1), 0);
  EXPECT_EQ(pool.reserved(), MiB(2));
  pool.Allocate(MiB(3), 0);
  EXPECT_EQ(pool.reserved(), MiB(22));
  pool.Allocate(MiB(11), 0);
  // It fits into the 17 MiB that the 3 MiB left free.
  EXPECT_EQ(pool.reserved(), MiB(22));
  pool.Allocate(MiB(11), 0);
  EXPECT_EQ(pool.reserved(), MiB(34));
}

TEST(CachingPool, AStreamReusesItsOwnBlocksOnly) {
  FakeSegments device(GiB(1));
  CachingPool pool(device);
  std::byte* first = pool.Allocate(MiB(32), 1);
  pool.Release(first);
  EXPECT_NE(pool.Allocate(MiB(32), 0), first);
  EXPECT_EQ(pool.Allocate(MiB(32), 1), first);
}

TEST(CachingPool, GivesUnusedSegmentsBackBeforeItFails) {
  FakeSegments device(MiB(100));
  CachingPool pool(device);
  std::byte* first = pool.Allocate(MiB(60), 0);
  EXPECT_EQ(pool.Allocate(MiB(60), 1), nullptr);
  pool.Release(first);
  EXPECT_NE(pool.Allocate(MiB(60), 1), nullptr);
  EXPECT_EQ(pool.reserved(), MiB(60));
  EXPECT_EQ(device.held(), MiB(60));
}

TEST(CachingPool, MergesNeighbours) {
  FakeSegments device(GiB(1));
  CachingPool pool(device);
  // Five blocks of 4 MiB fill a segment of 20 MiB exactly.
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(pool.Allocate(MiB(4), 0));
  ASSERT_EQ(pool.reserved(), MiB(20));
  for (const int i : {1, 3, 2, 0, 4}) pool.Release(blocks[i]);
  EXPECT_EQ(pool.Allocate(MiB(20), 0), blocks[0]);
  EXPECT_EQ(pool.reserved(), MiB(20));
}

// For any sequence of requests: blocks are within segments, do not overlap, and everything returns
// to the device at the end.
RC_GTEST_PROP(CachingPoolLaws, BlocksNeverOverlap, ()) {
  FakeSegments device(MiB(300));
  {
    CachingPool pool(device);
    std::map<std::byte*, std::int64_t> live;
    const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::oneOf(
        rc::gen::inRange<std::int64_t>(0, 4096), rc::gen::inRange<std::int64_t>(0, 3 << 20),
        rc::gen::inRange<std::int64_t>(1 << 20, 40 << 20)));
    for (const std::int64_t size : sizes) {
      if (!live.empty() && *rc::gen::inRange(0, 3) == 0) {
        auto victim = live.begin();
        std::advance(victim, *rc::gen::inRange<std::size_t>(0, live.size()));
        pool.Release(victim->first);
        live.erase(victim);
      }
      std::byte* at = pool.Allocate(Bytes(size), *rc::gen::inRange<std::uint16_t>(0, 2));
      if (at == nullptr) continue;
      RC_ASSERT(device.Holds(at, Bytes(size)));
      RC_ASSERT(reinterpret_cast<std::uintptr_t>(at) % 512 == 0u);
      const auto next = live.lower_bound(at);
      if (next != live.end()) RC_ASSERT(at + size <= next->first && at != next->first);
      if (next != live.begin()) {
        const auto before = std::prev(next);
        RC_ASSERT(before->first + before->second <= at);
      }
      live[at] = size;
      RC_ASSERT(pool.reserved() == device.held());
      RC_ASSERT(pool.peak_reserved() >= pool.reserved());
    }
  }
  RC_ASSERT(device.held() == Bytes(0));
}

}  // namespace
}  // namespace stepcast::runtime::cuda
