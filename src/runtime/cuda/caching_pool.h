#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "src/base/bytes.h"

// A caching allocator by the rules of PyTorch's (c10/cuda/CUDACachingAllocator.cpp): memory comes
// from the device in segments, is cut into blocks, and goes back to a free list of the stream it
// was allocated on, so that a step that has run once asks the device for nothing any more. Reuse
// follows host order: what is allocated on the same stream later runs later.
namespace stepcast::runtime::cuda {

// Where segments come from: cudaMalloc, or a stand-in in tests.
class Segments {
 public:
  virtual ~Segments() = default;
  virtual std::byte* Take(Bytes size) = 0;  // nullptr: there is no such piece left
  virtual void Give(std::byte* segment) = 0;
};

class CachingPool {
 public:
  // `segments` must live as long as the pool, which gives all of them back at its end.
  explicit CachingPool(Segments& segments) : segments_(segments) {}
  CachingPool(const CachingPool&) = delete;
  CachingPool& operator=(const CachingPool&) = delete;
  ~CachingPool();

  // nullptr: the device has no memory left, even after unused segments were freed. Aligned to 512
  // bytes as far as segments are.
  std::byte* Allocate(Bytes size, std::uint16_t stream);
  // The block becomes free for its stream. `block` came from Allocate.
  void Release(std::byte* block);

  Bytes reserved() const { return reserved_; }            // held from the device
  Bytes peak_reserved() const { return peak_reserved_; }  // most bytes ever held

 private:
  struct Block {
    std::int64_t size = 0;
    std::uint16_t stream = 0;
    bool small = false;
    bool free = false;
    std::byte* before = nullptr;  // neighbours in the segment
    std::byte* after = nullptr;
  };
  using FreeList = std::set<std::pair<std::int64_t, std::byte*>>;
  using FreeKey = std::pair<std::uint16_t, bool>;  // stream, small

  std::byte* TakeFree(std::int64_t size, FreeKey key);
  std::byte* TakeSegment(std::int64_t size, FreeKey key);
  void Split(std::byte* at, std::int64_t size);
  void Merge(std::byte* front, std::byte* back);
  void GiveUnusedSegmentsBack();

  Segments& segments_;
  std::unordered_map<std::byte*, Block> blocks_;
  std::map<FreeKey, FreeList> free_;
  Bytes reserved_;
  Bytes peak_reserved_;
};

}  // namespace stepcast::runtime::cuda
