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

// Where a program's buffers lie on a GPU. Allocation and release take effect in host order.
//
// With `pool`, CUDA's own stream-ordered allocator (cudaMallocFromPoolAsync) gives the memory, from
// a memory pool of this device's own that keeps what it has. Without, and always inside a graph
// that is being captured (where CUDA's allocator would make the allocations part of the graph),
// it is a CachingPool over cudaMalloc.
namespace stepcast::runtime::cuda {

// A caching allocator by the rules of PyTorch's (c10/cuda/CUDACachingAllocator.cpp): memory comes
// from the device in segments, is cut into blocks, and goes back to a free list of the stream it
// was allocated on, so that a step that has run once asks the device for nothing any more. Reuse
// follows host order: what is allocated on the same stream later runs later.

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

class DeviceMemory {
 public:
  // `streams` by number; they, and the program, must outlive this. `limit`: of the buffers' bytes
  // together; zero: none but the GPU's.
  static Attempt<std::unique_ptr<DeviceMemory>> Make(const program::Program& program,
                                                     std::span<const cudaStream_t> streams,
                                                     bool pool, Bytes limit);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  // Nothing may be running.
  ~DeviceMemory();

  // nullptr while it is not allocated.
  std::byte* at(program::Index buffer) const { return places_[buffer].at; }

  Attempt<void> Allocate(program::Index buffer, std::uint16_t stream);
  Attempt<void> Release(program::Index buffer);
  void RecordStream(program::Index buffer, std::uint16_t stream);

  // What is allocated between these keeps its place when the graph is replayed. A buffer that lives
  // across the border must not be released in between: the next replay would find it elsewhere.
  void BeginCapture();
  Attempt<void> EndCapture();

  Bytes peak() const { return peak_; }
  Bytes reserved() const;  // most bytes held from the GPU

 private:
  struct Place {
    std::byte* at = nullptr;
    std::uint16_t stream = 0;
    bool cached = false;  // from the CachingPool
    std::vector<std::uint16_t> also_used_by{};
  };
  // A block that other streams still use; `events` tell when they are done.
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
  cudaMemPool_t pool_ = nullptr;           // nullptr: everything comes from cache_
  cudaStream_t release_stream_ = nullptr;  // gives back what several streams used
  std::vector<Waiting> waiting_;
  std::vector<cudaEvent_t> free_events_;
  bool capturing_ = false;
  std::vector<std::byte*> before_capture_;
  Bytes in_use_, peak_;
};

}  // namespace stepcast::runtime::cuda
