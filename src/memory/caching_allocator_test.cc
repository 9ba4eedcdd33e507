#include "src/memory/caching_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rapidcheck/gtest.h"
#include "src/base/bytes.h"

// Sizes are worked out by hand from the rules in the header.
namespace stepcast::memory {
namespace {

constexpr int kOne = 1;
constexpr auto kNoBlock = CachingAllocator::kNoBlock;

CachingAllocator Make(Bytes capacity = GiB(80), int streams = kOne, bool expandable = false) {
  return CachingAllocator(streams, {.capacity = capacity, .expandable_segments = expandable});
}

TEST(CachingAllocatorTest, RequestsAreRoundedUpTo512Bytes) {
  CachingAllocator allocator = Make();
  allocator.Allocate(0, Bytes(1));
  EXPECT_EQ(allocator.allocated(), Bytes(512));
  allocator.Allocate(0, Bytes(513));
  EXPECT_EQ(allocator.allocated(), Bytes(512 + 1024));
  EXPECT_EQ(allocator.reserved(), MiB(2));  // both from the same small segment
}

TEST(CachingAllocatorTest, AnEmptyRequestTakesABlock) {
  CachingAllocator allocator = Make();
  EXPECT_NE(allocator.Allocate(0, Bytes(0)), kNoBlock);
  EXPECT_EQ(allocator.allocated(), Bytes(512));
}

TEST(CachingAllocatorTest, SegmentsBySizeOfTheRequest) {
  const auto reserved = [](Bytes size) {
    CachingAllocator allocator = Make();
    allocator.Allocate(0, size);
    return allocator.reserved();
  };
  EXPECT_EQ(reserved(MiB(1)), MiB(2));              // the largest small one
  EXPECT_EQ(reserved(MiB(1) + Bytes(1)), MiB(20));  // the smallest large one
  EXPECT_EQ(reserved(MiB(10) - Bytes(512)), MiB(20));
  EXPECT_EQ(reserved(MiB(10)), MiB(10));  // of its own, a multiple of 2 MiB
  EXPECT_EQ(reserved(MiB(10) + Bytes(1)), MiB(12));
}

// 20 MiB: 5 MiB, 5 MiB, and 10 MiB left. A third request of 9 MiB takes all of them, because the
// remainder of 1 MiB is not more than 1 MiB.
TEST(CachingAllocatorTest, ALargeBlockIsSplitOnlyIfMoreThanAMebibyteIsLeft) {
  CachingAllocator allocator = Make();
  allocator.Allocate(0, MiB(5));
  allocator.Allocate(0, MiB(5));
  EXPECT_EQ(allocator.allocated(), MiB(10));
  allocator.Allocate(0, MiB(9));
  EXPECT_EQ(allocator.allocated(), MiB(20));
  EXPECT_EQ(allocator.reserved(), MiB(20));
  allocator.Allocate(0, MiB(2));
  EXPECT_EQ(allocator.reserved(), MiB(40));
}

TEST(CachingAllocatorTest, TheSmallestBlockThatIsLargeEnoughIsTaken) {
  CachingAllocator allocator = Make();
  const auto a = allocator.Allocate(0, MiB(40));
  const auto b = allocator.Allocate(0, MiB(12));
  const auto c = allocator.Allocate(0, MiB(24));
  EXPECT_EQ(allocator.reserved(), MiB(76));
  const std::int64_t at_a = allocator.AddressOf(a);
  const std::int64_t at_b = allocator.AddressOf(b);
  const std::int64_t at_c = allocator.AddressOf(c);
  allocator.Free(a);
  allocator.Free(b);
  allocator.Free(c);
  const auto place_of = [&](Bytes size) {
    return allocator.AddressOf(allocator.Allocate(0, size));
  };
  EXPECT_EQ(place_of(MiB(20)), at_c);  // 24 MiB fits better than 40
  EXPECT_EQ(place_of(MiB(12)), at_b);
  EXPECT_EQ(place_of(MiB(12)), at_a);
  EXPECT_EQ(allocator.reserved(), MiB(76));
}

// Freed in the order 1, 3, 2, three blocks and the 5 MiB after them merge into one block of 20 MiB,
// which serves a request that would otherwise need its own segment.
TEST(CachingAllocatorTest, FreeNeighboursMerge) {
  CachingAllocator allocator = Make();
  const auto a = allocator.Allocate(0, MiB(5));
  const auto b = allocator.Allocate(0, MiB(5));
  const auto c = allocator.Allocate(0, MiB(5));
  allocator.Free(a);
  allocator.Free(c);
  allocator.Free(b);
  EXPECT_EQ(allocator.allocated(), Bytes(0));
  const std::int64_t begin = allocator.AddressOf(a);
  EXPECT_EQ(allocator.AddressOf(allocator.Allocate(0, MiB(20))), begin);
  EXPECT_EQ(allocator.reserved(), MiB(20));
}

TEST(CachingAllocatorTest, SegmentsDoNotMerge) {
  CachingAllocator allocator = Make();
  const auto a = allocator.Allocate(0, MiB(10));
  const auto b = allocator.Allocate(0, MiB(10));
  allocator.Free(a);
  allocator.Free(b);
  allocator.Allocate(0, MiB(20));
  EXPECT_EQ(allocator.reserved(), MiB(40));
}

// Fragmentation: free memory in two pieces does not serve one large request.
TEST(CachingAllocatorTest, ALiveBlockKeepsItsNeighboursApart) {
  CachingAllocator allocator = Make();
  const auto a = allocator.Allocate(0, MiB(8));
  allocator.Allocate(0, MiB(4));
  allocator.Free(a);
  allocator.Allocate(0, MiB(9));  // 8 + 8 MiB are free, but not side by side
  EXPECT_EQ(allocator.reserved(), MiB(40));
}

TEST(CachingAllocatorTest, StreamsHavePoolsOfTheirOwn) {
  CachingAllocator allocator = Make(GiB(80), 2);
  const auto a = allocator.Allocate(0, MiB(100));
  allocator.Free(a);
  allocator.Allocate(1, MiB(100));
  EXPECT_EQ(allocator.reserved(), MiB(200));
  EXPECT_EQ(allocator.AddressOf(allocator.Allocate(0, MiB(100))), 0);
  EXPECT_EQ(allocator.reserved(), MiB(200));
}

// Capacity 100 MiB: stream 0 caches 60, so stream 1's 60 need a flush.
TEST(CachingAllocatorTest, AFullDeviceGivesBackWhatNoBlockNeeds) {
  CachingAllocator allocator = Make(MiB(100), 2);
  const auto a = allocator.Allocate(0, MiB(60));
  allocator.Free(a);
  EXPECT_EQ(allocator.calls().flushes, 0);
  EXPECT_NE(allocator.Allocate(1, MiB(60)), kNoBlock);
  EXPECT_EQ(allocator.calls().flushes, 1);
  EXPECT_EQ(allocator.reserved(), MiB(60));
  EXPECT_EQ(allocator.peak_reserved(), MiB(60));
}

TEST(CachingAllocatorTest, ASegmentWithALiveBlockIsKept) {
  CachingAllocator allocator = Make(MiB(100));
  const auto a = allocator.Allocate(0, MiB(5));
  allocator.Allocate(0, MiB(5));
  allocator.Free(a);
  EXPECT_EQ(allocator.Allocate(0, MiB(90)), kNoBlock);
  EXPECT_EQ(allocator.reserved(), MiB(20));
  EXPECT_NE(allocator.Allocate(0, MiB(80)), kNoBlock);
}

TEST(CachingAllocatorTest, OutOfMemoryChangesNothing) {
  CachingAllocator allocator = Make(MiB(100));
  allocator.Allocate(0, MiB(50));
  EXPECT_EQ(allocator.Allocate(0, MiB(51)), kNoBlock);
  EXPECT_EQ(allocator.allocated(), MiB(50));
  EXPECT_EQ(allocator.reserved(), MiB(50));
}

// 12 MiB need one granule of 20; 8 are left. 16 more need one granule, and 12 are left, in the same
// range and without a fragment between them.
TEST(CachingAllocatorTest, ExpandableSegmentsGrowAtTheirEnd) {
  CachingAllocator allocator = Make(GiB(80), kOne, true);
  const auto a = allocator.Allocate(0, MiB(12));
  EXPECT_EQ(allocator.reserved(), MiB(20));
  const auto b = allocator.Allocate(0, MiB(16));
  EXPECT_EQ(allocator.reserved(), MiB(40));
  EXPECT_EQ(allocator.AddressOf(b), allocator.AddressOf(a) + MiB(12).count());
  allocator.Free(a);
  allocator.Free(b);
  const auto whole = allocator.Allocate(0, MiB(40));
  ASSERT_NE(whole, kNoBlock);
  EXPECT_EQ(allocator.reserved(), MiB(40));
}

// Granules of the small pool are 2 MiB, and blocks are split down to 512 B: 3 x 768 KiB take two
// granules without a gap, where whole segments of 2 MiB hold two each. A block freed in the middle
// serves the next request that fits, at the lowest address.
TEST(CachingAllocatorTest, ExpandableSegmentsSplitFinelyAndReuseTheMiddle) {
  CachingAllocator allocator = Make(GiB(80), kOne, true);
  const auto a = allocator.Allocate(0, KiB(768));
  const auto b = allocator.Allocate(0, KiB(768));
  const auto c = allocator.Allocate(0, KiB(768));
  EXPECT_EQ(allocator.reserved(), MiB(4));
  EXPECT_EQ(allocator.AddressOf(c), allocator.AddressOf(a) + KiB(1536).count());
  allocator.Free(b);
  const auto d = allocator.Allocate(0, KiB(700));
  EXPECT_EQ(allocator.AddressOf(d), allocator.AddressOf(b));
  const auto e = allocator.Allocate(0, KiB(68));  // 68 KiB are left there
  EXPECT_EQ(allocator.AddressOf(e), allocator.AddressOf(d) + KiB(700).count());
  EXPECT_EQ(allocator.reserved(), MiB(4));
  EXPECT_EQ(allocator.allocated(), KiB(3 * 768));
  // Large requests have a range of their own: 7 MiB, then 14 more beside them in two granules.
  const auto f = allocator.Allocate(0, MiB(7));
  EXPECT_EQ(allocator.reserved(), MiB(24));
  const auto g = allocator.Allocate(0, MiB(14));
  EXPECT_EQ(allocator.reserved(), MiB(44));
  EXPECT_EQ(allocator.AddressOf(g), allocator.AddressOf(f) + MiB(7).count());
}

// Growing micro-batches fragment memory without expandable segments.
TEST(CachingAllocatorTest, ExpandableSegmentsDoNotFragmentAsRequestsGrow) {
  for (const bool expandable : {false, true}) {
    CachingAllocator allocator = Make(GiB(80), kOne, expandable);
    for (int mebibytes = 20; mebibytes <= 200; mebibytes += 20) {
      allocator.Free(allocator.Allocate(0, MiB(mebibytes)));
    }
    // 20 + 40 + ... + 200, or the largest alone.
    EXPECT_EQ(allocator.reserved(), expandable ? MiB(200) : MiB(1100));
  }
}

TEST(CachingAllocatorTest, AFullDeviceUnmapsWholeGranules) {
  CachingAllocator allocator = Make(MiB(100), 2, true);
  const auto a = allocator.Allocate(0, MiB(60));
  allocator.Allocate(0, MiB(5));  // a fourth granule
  EXPECT_EQ(allocator.reserved(), MiB(80));
  allocator.Free(a);
  EXPECT_NE(allocator.Allocate(1, MiB(80)), kNoBlock);
  EXPECT_EQ(allocator.reserved(), MiB(100));
}

// For any requests: reserved memory holds all live blocks, no two live blocks overlap, and after
// all are freed, a flush leaves nothing.
RC_GTEST_PROP(CachingAllocatorProperty, BooksBalance, (bool expandable)) {
  CachingAllocator allocator = Make(MiB(512), 2, expandable);
  std::vector<std::pair<CachingAllocator::Block, std::int64_t>> live;
  const int calls = *rc::gen::inRange(1, 200);
  for (int i = 0; i < calls; ++i) {
    if (!live.empty() && *rc::gen::arbitrary<bool>()) {
      const auto at = *rc::gen::inRange<std::size_t>(0, live.size());
      allocator.Free(live[at].first);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    const int stream = *rc::gen::inRange(0, 2);
    const std::int64_t size = *rc::gen::inRange<std::int64_t>(0, 1 << 25);
    const auto block = allocator.Allocate(stream, Bytes(size));
    if (block != kNoBlock) {
      const std::int64_t begin = allocator.AddressOf(block);
      for (const auto& [other, other_size] : live) {
        const std::int64_t other_begin = allocator.AddressOf(other);
        RC_ASSERT(begin >= other_begin + other_size || other_begin >= begin + size);
      }
      live.emplace_back(block, size);
    }
    std::int64_t sum = 0;
    for (const auto& [block, block_size] : live) sum += block_size;
    RC_ASSERT(allocator.allocated() >= Bytes(sum));
    RC_ASSERT(allocator.reserved() >= allocator.allocated());
    RC_ASSERT(allocator.reserved() <= MiB(512));
  }
  for (const auto& [block, size] : live) allocator.Free(block);
  RC_ASSERT(allocator.allocated() == Bytes(0));
  RC_ASSERT(allocator.Allocate(0, MiB(500)) != kNoBlock);
  RC_ASSERT(allocator.reserved() <= MiB(512));
}

// The rules again, examining every block for every request. Without expandable segments.
class AllBlocks {
 public:
  explicit AllBlocks(Bytes capacity) : capacity_(capacity.count()) {}

  // Its address; -1: out of memory.
  std::int64_t Allocate(int stream, std::int64_t size) {
    const std::int64_t block = BlockSize(size);
    const int pool = 2 * stream + (IsSmall(block) ? 0 : 1);
    auto found = BestFit(pool, block);
    if (found == pieces_.end()) {
      const std::int64_t segment = SegmentSize(block);
      if (reserved_ + segment > capacity_) Flush();
      if (reserved_ + segment > capacity_) return -1;
      reserved_ += segment;
      pieces_.push_back({pool, next_, next_, segment, false});
      next_ += segment;
      found = pieces_.end() - 1;
    }
    const std::int64_t rest = found->size - block;
    if (IsSmall(block) ? rest >= kMinBlockSize : rest > kSmallSize) {
      found->size = block;
      found =
          pieces_.insert(found + 1, {pool, found->segment, found->address + block, rest, false}) -
          1;
    }
    found->live = true;
    return found->address;
  }

  void Free(std::int64_t address) {
    for (Piece& piece : pieces_) {
      if (piece.address == address) piece.live = false;
    }
    for (std::size_t i = 1; i < pieces_.size();) {
      Piece& before = pieces_[i - 1];
      if (before.live || pieces_[i].live || before.segment != pieces_[i].segment) {
        ++i;
        continue;
      }
      before.size += pieces_[i].size;
      pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  std::int64_t reserved() const { return reserved_; }

 private:
  struct Piece {
    int pool = 0;
    std::int64_t segment = 0, address = 0, size = 0;
    bool live = false;
  };

  std::vector<Piece>::iterator BestFit(int pool, std::int64_t size) {
    auto best = pieces_.end();
    for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece) {
      if (piece->live || piece->pool != pool || piece->size < size) continue;
      if (best == pieces_.end() || piece->size < best->size) best = piece;
    }
    return best;
  }

  // Free neighbours are merged: a free piece without neighbours in its segment is all of it.
  void Flush() {
    const std::vector<Piece> before = pieces_;
    std::erase_if(pieces_, [&before](const Piece& piece) {
      const auto in_segment = std::count_if(before.begin(), before.end(), [&](const Piece& other) {
        return other.segment == piece.segment;
      });
      return !piece.live && in_segment == 1;
    });
    reserved_ = 0;
    for (const Piece& piece : pieces_) reserved_ += piece.size;
  }

  const std::int64_t capacity_;
  std::vector<Piece> pieces_;  // by address
  std::int64_t reserved_ = 0, next_ = 0;
};

RC_GTEST_PROP(CachingAllocatorProperty, BlocksLieWhereTheRulesPutThem, ()) {
  const Bytes capacity = MiB(200);
  CachingAllocator allocator = Make(capacity, 2);
  AllBlocks expected(capacity);
  std::vector<CachingAllocator::Block> live;
  // Few sizes: many blocks that fit alike.
  const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(
      4, rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 8192),
                        rc::gen::inRange<std::int64_t>(0, 1 << 25)));
  const int calls = *rc::gen::inRange(1, 300);
  for (int i = 0; i < calls; ++i) {
    if (!live.empty() && *rc::gen::inRange(0, 5) < 2) {
      const auto at = *rc::gen::inRange<std::size_t>(0, live.size());
      expected.Free(allocator.AddressOf(live[at]));
      allocator.Free(live[at]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    const int stream = *rc::gen::inRange(0, 2);
    const std::int64_t size = *rc::gen::elementOf(sizes);
    const auto block = allocator.Allocate(stream, Bytes(size));
    const std::int64_t address = expected.Allocate(stream, size);
    RC_ASSERT((block == kNoBlock ? -1 : allocator.AddressOf(block)) == address);
    RC_ASSERT(allocator.reserved() == Bytes(expected.reserved()));
    if (block != kNoBlock) live.push_back(block);
  }
}

}  // namespace
}  // namespace stepcast::memory
