#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/program/program.h"
#include "src/runtime/device.h"

// The memory of a program's buffers on a GPU. Allocation and release take effect in host order.
// With `pool`, memory comes from CUDA's stream-ordered allocator (cudaMallocFromPoolAsync), whose
// pool on this device keeps released memory. Without `pool`, or while a graph is captured, memory
// comes from a CachingPool over cudaMalloc, because CUDA's allocations would become part of the
// graph.
namespace stepcast::runtime::cuda {

// A caching allocator with the rules of PyTorch's allocator (c10/cuda/CUDACachingAllocator.cpp).
// Memory comes from the device in segments, which are divided into blocks. A released block goes to
// the free list of the stream on which it was allocated, so that later steps need no device
// allocations. The host can reuse a released block at once, because later work on the same stream
// runs later.

// A source of segments: cudaMalloc, or a fake in tests.
class Segments {
 public:
  virtual ~Segments() = default;
  virtual std::byte* Take(Bytes size) = 0;  // returns contiguous memory; nullptr: out of memory
  virtual void Give(std::byte* segment) = 0;
};

class CachingPool {
 public:
  // Creates an empty pool. `segments` must outlive the pool. The destructor returns all segments.
  explicit CachingPool(Segments& segments) : segments_(segments) {}
  CachingPool(const CachingPool&) = delete;
  CachingPool& operator=(const CachingPool&) = delete;
  ~CachingPool();

  // Allocates a block. Returns nullptr if the device has no memory left, even after unused segments
  // were freed. Addresses are aligned to 512 bytes if the segments are.
  std::byte* Allocate(Bytes size, std::uint16_t stream);
  // Returns `block`, which must come from Allocate, to the free list of its stream.
  void Release(std::byte* block);

  Bytes reserved() const { return reserved_; }            // bytes of segments taken from the device
  Bytes peak_reserved() const { return peak_reserved_; }  // maximum of reserved() so far

 private:
  struct Block {
    std::int64_t size = 0;
    std::uint16_t stream = 0;
    bool small = false;
    bool free = false;
    std::byte* before = nullptr;  // neighbors in the segment
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

class DeviceMemory {
 public:
  // Creates the memory of a program's buffers. `streams` are in the order of Program::streams.
  // `streams` and the program must outlive the result. `limit` is the largest total size of
  // buffers; zero stands for the size of the GPU's memory.
  static Attempt<std::unique_ptr<DeviceMemory>> Make(const program::Program& program,
                                                     std::span<const cudaStream_t> streams,
                                                     bool pool, Bytes limit);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  // Frees the memory. No work may be running.
  ~DeviceMemory();

  // Returns the address of the buffer, or nullptr while it is not allocated.
  std::byte* at(program::Index buffer) const { return places_[buffer].at; }

  Attempt<void> Allocate(program::Index buffer, std::uint16_t stream);
  Attempt<void> Release(program::Index buffer);
  void RecordStream(program::Index buffer, std::uint16_t stream);

  // Buffers allocated between BeginCapture and EndCapture keep their addresses when the graph is
  // replayed. A buffer allocated before BeginCapture must not be released before EndCapture,
  // because a replay would use its old address.
  void BeginCapture();
  Attempt<void> EndCapture();

  Bytes peak() const { return peak_; }
  Bytes reserved() const;  // maximum bytes taken from the GPU

 private:
  struct Place {
    std::byte* at = nullptr;
    std::uint16_t stream = 0;
    bool cached = false;  // the memory comes from the CachingPool
    std::vector<std::uint16_t> also_used_by{};
  };
  // A released block that other streams may still use. The block is free when `events` are
  // complete.
  struct Waiting {
    std::byte* at = nullptr;
    std::vector<cudaEvent_t> events{};
  };
  class CudaSegments final : public Segments {
   public:
    std::byte* Take(Bytes size) override;
    void Give(std::byte* segment) override;
  };

  DeviceMemory(const program::Program& program, std::span<const cudaStream_t> streams, Bytes limit)
      : program_(program), streams_(streams), limit_(limit), places_(program.buffers.size()) {}

  Failure DoesNotFit(program::Index buffer, const char* why) const;
  Attempt<std::byte*> TakeFromCuda(program::Index buffer, std::uint16_t stream);
  Attempt<void> GiveToCuda(const Place& place);
  Attempt<void> GiveLater(const Place& place);
  void TakeBackWhatIsDone();
  Attempt<cudaEvent_t> TakeEvent();

  const program::Program& program_;
  std::span<const cudaStream_t> streams_;
  Bytes limit_;
  std::vector<Place> places_;
  CudaSegments segments_;
  CachingPool cache_{segments_};
  cudaMemPool_t pool_ = nullptr;           // nullptr: all memory comes from cache_
  cudaStream_t release_stream_ = nullptr;  // releases memory that several streams used
  std::vector<Waiting> waiting_;
  std::vector<cudaEvent_t> free_events_;
  bool capturing_ = false;
  std::vector<std::byte*> before_capture_;
  Bytes in_use_, peak_;
};

}  // namespace stepcast::runtime::cuda
