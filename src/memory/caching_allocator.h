#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/memory/account.h"

namespace stepcast::memory {

// Sizes in PyTorch's caching allocator, in bytes, named as in CUDACachingAllocator.cpp.

inline constexpr std::int64_t kMinBlockSize = 512;
inline constexpr std::int64_t kSmallSize = std::int64_t{1} << 20;
inline constexpr std::int64_t kSmallBuffer = std::int64_t{2} << 20;
inline constexpr std::int64_t kLargeBuffer = std::int64_t{20} << 20;
inline constexpr std::int64_t kMinLargeAlloc = std::int64_t{10} << 20;
inline constexpr std::int64_t kRoundLarge = std::int64_t{2} << 20;

constexpr std::int64_t RoundUp(std::int64_t size, std::int64_t granule) {
  return (size + granule - 1) / granule * granule;
}

// Returns the block size for a request, in bytes: the request, rounded up.
constexpr std::int64_t BlockSize(std::int64_t size) {
  return std::max(kMinBlockSize, RoundUp(size, kMinBlockSize));
}

// Returns whether a rounded request is allocated in the small pool.
constexpr bool IsSmall(std::int64_t block) { return block <= kSmallSize; }

// Returns the size of a new, non-expandable segment for a rounded request, in bytes.
constexpr std::int64_t SegmentSize(std::int64_t block) {
  if (IsSmall(block)) return kSmallBuffer;
  return block < kMinLargeAlloc ? kLargeBuffer : RoundUp(block, kRoundLarge);
}

// PyTorch's caching allocator for device memory: the segments that it reserves on the device, with
// virtual addresses, and the blocks in the segments. Source: pytorch/pytorch 2.6.0,
// c10/cuda/CUDACachingAllocator.cpp, with default settings.
//
//  * A request is rounded up to a multiple of 512 B.
//  * Requests up to 1 MiB use the small pool, with segments of 2 MiB. Larger requests use the large
//    pool: segments of 20 MiB for requests below 10 MiB, otherwise the request rounded up to 2 MiB.
// * Every stream has its own pools. A request uses the smallest sufficient free block (of several,
//   the one at the lowest address). The remainder of this block becomes a free block if it is at
//   least 512 B (small pool) or more than 1 MiB (large pool).
// * A freed block is merged with its free neighbors in the segment. Segments are not freed.
// * If a new segment does not fit on the device, all segments without a live block are freed, for
//   all streams, and the request is repeated once. If the request fails again,
//   the process is out of memory.
//  * Expandable segments (PYTORCH_CUDA_ALLOC_CONF): each pool is one address range that grows at
//    its end by 2 MiB (small) or 20 MiB (large) at a time. Blocks can be as small as 512 B. Only
//    complete granules are freed.
//
// Deterministic: segments have ascending addresses in the order of their creation.
class CachingAllocator {
 public:
  struct Settings {
    Bytes capacity;  // bytes available for segments
    bool expandable_segments = false;
  };

  // A live block. The number of a block is invalid after the block is freed.
  using Block = std::uint32_t;
  static constexpr Block kNoBlock = static_cast<Block>(-1);

  CachingAllocator(int streams, Settings settings) { Reset(streams, settings); }

  // Resets the allocator to its initial state. Reuses its memory.
  void Reset(int streams, Settings settings);

  // Allocates a block for `stream` from a free block or a new segment. Returns kNoBlock if the
  // segment does not fit on the device.
  Block TryAllocate(int stream, Bytes size);
  // Frees all segments without a live block, and allocates a new segment. Call this function after
  // TryAllocate has failed. Like PyTorch, this function does not search free blocks again (issue
  // 189504). Returns kNoBlock if there is not enough memory.
  Block FlushAndAllocate(int stream, Bytes size);
  // Calls TryAllocate, then FlushAndAllocate if needed.
  Block Allocate(int stream, Bytes size) {
    const Block block = TryAllocate(stream, size);
    return block != kNoBlock ? block : FlushAndAllocate(stream, size);
  }
  // Frees a block, which must be live.
  void Free(Block block);

  // Returns the block's address. Two live blocks never overlap.
  std::int64_t AddressOf(Block block) const { return blocks_[block].address; }

  Bytes allocated() const { return allocated_; }  // bytes in live blocks, with rounded sizes
  Bytes reserved() const { return reserved_; }    // bytes in segments
  Bytes peak_reserved() const { return peak_reserved_; }
  std::int64_t SizeOf(Block block) const { return blocks_[block].size; }

  // Returns the driver calls so far. Two states with equal calls and equal live blocks (addresses
  // and sizes) are equivalent: the same requests have the same results. (While `flushes` is
  // unchanged, segments are only added, so equal calls mean equal segments. Free neighbors are
  // always merged, so the free blocks are also equal.)
  const DriverCalls& calls() const { return calls_; }

 private:
  // The number of size classes: four for each power of two, from 512 B on.
  static constexpr std::size_t kClasses = 192;

  struct State {
    std::int64_t address = 0;
    std::int64_t size = 0;
    Block before = kNoBlock, after = kNoBlock;  // neighbors in the segment
    // The next better and the next worse fit in the size class of a free block. A better fit is a
    // smaller block or, of blocks of equal size, the block at the lower address.
    Block better = kNoBlock, worse = kNoBlock;
    std::uint32_t pool = 0;
    bool live = false;
  };
  struct Pool {
    bool small = false;
    std::array<Block, kClasses> best{};              // indexed by size class: the best free block
    std::array<std::uint64_t, kClasses / 64> has{};  // bits of the size classes with free blocks
    // For expandable segments: the mapped range [begin, end) and its last block.
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
  std::vector<Pool> pools_;  // stream s uses pools 2s (small) and 2s + 1 (large)
  std::vector<State> blocks_;
  std::vector<Block> unused_;  // unused entries of blocks_
  std::int64_t next_address_ = 0;
  Bytes allocated_, reserved_, peak_reserved_;
  DriverCalls calls_;
};

}  // namespace stepcast::memory
