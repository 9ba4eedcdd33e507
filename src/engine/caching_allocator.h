#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/bytes.h"

namespace stepcast::engine {

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
    Bytes capacity;                    // what the device can give to this process's segments
    bool expandable_segments = false;
  };

  // Names a live block until it is freed.
  using Block = std::int64_t;

  CachingAllocator(int streams, Settings settings);

  // A block for `stream`; nothing if the device has no room left for it.
  std::optional<Block> Allocate(int stream, Bytes size);
  // Requires a live block.
  void Free(Block block);

  Bytes allocated() const { return allocated_; }  // live blocks, rounded up as they are
  Bytes reserved() const { return reserved_; }    // segments
  Bytes peak_allocated() const { return peak_allocated_; }
  Bytes peak_reserved() const { return peak_reserved_; }
  // How often all unused segments were given back because the device was full. Each time the
  // process waits for the device.
  int flushes() const { return flushes_; }

 private:
  using Address = std::int64_t;
  struct Pool {
    bool small = false;
    // Free blocks by size, then address: the first that is large enough is the one to take.
    std::vector<std::pair<std::int64_t, Address>> free;
    // Expandable: the range [begin, end) that has been mapped so far; begin < 0: none.
    Address begin = -1, end = -1;
  };
  struct Piece {
    std::int64_t size = 0;
    int pool = 0;
    bool live = false;
    bool first = false;  // of its segment: nothing to merge with before it
  };
  // All blocks by address.
  using Pieces = std::map<Address, Piece>;

  std::optional<Address> TakeFree(int pool, std::int64_t size);
  std::optional<Address> TakeSegment(int pool, std::int64_t size);
  bool Grow(int pool, std::int64_t size);
  bool RoomFor(std::int64_t size) const;
  void Flush();
  void AddFree(Pieces::iterator piece);
  void DropFree(Pieces::iterator piece);
  Pieces::iterator MergeNeighbours(Pieces::iterator piece);

  Settings settings_;
  std::vector<Pool> pools_;  // of stream s: 2s small, 2s + 1 large
  Pieces pieces_;
  Address next_address_ = 0;
  Bytes allocated_, reserved_, peak_allocated_, peak_reserved_;
  int flushes_ = 0;
};

}  // namespace stepcast::engine
