#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/memory/account.h"

namespace stepcast::memory {

// The sizes in which PyTorch's caching allocator deals with memory (caching_allocator.h), in bytes.
// The names are those of CUDACachingAllocator.cpp.

inline constexpr std::int64_t kMinBlockSize = 512;
inline constexpr std::int64_t kSmallSize = std::int64_t{1} << 20;
inline constexpr std::int64_t kSmallBuffer = std::int64_t{2} << 20;
inline constexpr std::int64_t kLargeBuffer = std::int64_t{20} << 20;
inline constexpr std::int64_t kMinLargeAlloc = std::int64_t{10} << 20;
inline constexpr std::int64_t kRoundLarge = std::int64_t{2} << 20;

constexpr std::int64_t RoundUp(std::int64_t size, std::int64_t granule) {
  return (size + granule - 1) / granule * granule;
}

// Rounding of requests.
constexpr std::int64_t BlockSize(std::int64_t size) {
  return std::max(kMinBlockSize, RoundUp(size, kMinBlockSize));
}

// Whether the small pool serves it, rounded up.
constexpr bool IsSmall(std::int64_t block) { return block <= kSmallSize; }

// The segment that is taken for it where no free block is large enough; not an expandable one.
constexpr std::int64_t SegmentSize(std::int64_t block) {
  if (IsSmall(block)) return kSmallBuffer;
  return block < kMinLargeAlloc ? kLargeBuffer : RoundUp(block, kRoundLarge);
}

// PyTorch's caching allocator for device memory, in virtual addresses: what it takes from the
// device (segments) and how it cuts that into blocks, so that reserved memory and fragmentation
// come out beside what was asked for. Source: pytorch/pytorch 2.6.0,
// c10/cuda/CUDACachingAllocator.cpp, with its defaults.
//
//   * A request is rounded up to 512 B, at least 512 B.
//   * Up to 1 MiB it is served from the small pool, whose segments are 2 MiB; above from the large
//     pool: segments of 20 MiB for requests below 10 MiB, else the request rounded up to 2 MiB.
//   * Every stream has pools of its own. The smallest free block that is large enough is taken, on
//     a tie the one at the lowest address; what it has too much becomes a free block if it is at
//     least 512 B (small pool) or more than 1 MiB (large pool).
//   * A freed block merges with its free neighbours in the segment. Segments stay.
//   * Where the device has no room for a new segment, all segments without a live block are given
//     back, of every stream, and the request is tried once more; then it is out of memory.
//   * Expandable segments (PYTORCH_CUDA_ALLOC_CONF): each pool is one range of addresses that grows
//     at its end by 2 MiB (small) or 20 MiB (large) at a time and is split down to 512 B. Of what
//     is given back, only whole granules count.
//
// Deterministic: segments have ascending addresses in the order in which they were taken.
class CachingAllocator {
 public:
  struct Settings {
    Bytes capacity;  // what the device can give to this process's segments
    bool expandable_segments = false;
  };

  // Names a live block until it is freed.
  using Block = std::uint32_t;
  static constexpr Block kNoBlock = static_cast<Block>(-1);

  CachingAllocator(int streams, Settings settings) { Reset(streams, settings); }

  // As a new one, in the same memory.
  void Reset(int streams, Settings settings);

  // A block for `stream` from a free block or a new segment; kNoBlock if the device has no room for
  // the segment.
  Block TryAllocate(int stream, Bytes size);
  // The same once TryAllocate found nothing: gives all segments without a live block back and takes
  // a new one. Free blocks are not looked at again, as in PyTorch (issue 189504): what was freed
  // since then helps only where a whole segment became free. kNoBlock: out of memory.
  Block FlushAndAllocate(int stream, Bytes size);
  // One after the other.
  Block Allocate(int stream, Bytes size) {
    const Block block = TryAllocate(stream, size);
    return block != kNoBlock ? block : FlushAndAllocate(stream, size);
  }
  // Requires a live block.
  void Free(Block block);

  // Where it lies. Two live blocks never overlap.
  std::int64_t AddressOf(Block block) const { return blocks_[block].address; }

  Bytes allocated() const { return allocated_; }  // live blocks, rounded up as they are
  Bytes reserved() const { return reserved_; }    // segments
  Bytes peak_reserved() const { return peak_reserved_; }
  std::int64_t SizeOf(Block block) const { return blocks_[block].size; }

  // So far. As long as `flushes` stays the same, segments are only ever added: two moments of one
  // allocator with the same calls have the same segments. Free neighbours are always merged, so the
  // free blocks follow from these and the live blocks. So two moments that agree in calls and in
  // the addresses and sizes of live blocks are alike: from both, the same requests have the same
  // outcome.
  const DriverCalls& calls() const { return calls_; }

 private:
  // Sizes in four classes for each power of two of 512 B.
  static constexpr std::size_t kClasses = 192;

  struct State {
    std::int64_t address = 0;
    std::int64_t size = 0;
    Block before = kNoBlock, after = kNoBlock;  // neighbours in the segment
    // Of a free block: those of its class that fit next better and next worse. The best fit is the
    // smallest, of several the one at the lowest address.
    Block better = kNoBlock, worse = kNoBlock;
    std::uint32_t pool = 0;
    bool live = false;
  };
  struct Pool {
    bool small = false;
    std::array<Block, kClasses> best{};              // free block by class of size
    std::array<std::uint64_t, kClasses / 64> has{};  // which classes have any
    // Expandable: the range [begin, end) that has been mapped so far, and its last block.
    std::int64_t begin = 0, end = 0;
    Block last = kNoBlock;
  };

  Block TakeFree(std::uint32_t pool, std::int64_t size);
  Block TakeSegment(std::uint32_t pool, std::int64_t size);
  bool Grow(std::uint32_t pool, std::int64_t size);
  Block HandOut(Block block);
  void Reserve(std::int64_t size, std::int64_t calls);
  void Unreserve(std::int64_t size, std::int64_t calls);
  bool RoomFor(std::int64_t size) const;
  void Flush();
  void GiveBack(Block block);
  void GiveBackGranules(Block block);
  Block NewEntry();
  static std::size_t FirstClass(const Pool& pool, std::size_t from);
  void Forget(Block block);
  void AddFree(Block block);
  void DropFree(Block block);
  Block MergeNeighbours(Block block);

  Settings settings_;
  std::vector<Pool> pools_;  // of stream s: 2s small, 2s + 1 large
  std::vector<State> blocks_;
  std::vector<Block> unused_;  // entries of blocks_ that stand for nothing
  std::int64_t next_address_ = 0;
  Bytes allocated_, reserved_, peak_reserved_;
  DriverCalls calls_;
};

}  // namespace stepcast::memory
