#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "src/base/bytes.h"
#include "src/program/program.h"

namespace stepcast::runtime::host {

// Maps `size` bytes, rounded up to whole pages, or returns null if the system has no more memory.
// Release the memory with munmap. In every data type, the memory contains random numbers of
// moderate absolute value: between 1/128 and 2 as bf16 and fp32, and between 1 and 2 as fp16. Pages
// are shared until they are written, so unwritten pages use no memory. If the process may not
// create a file of 16 MiB (`ulimit -f`), all pages are written at once. `seed` selects the first
// number.
std::byte* MapRandomPages(std::int64_t size, std::uint64_t seed);

// The memory of a program's buffers: a caching allocator, as in training frameworks. In host order,
// the next buffer of about the same size on the same stream reuses a released block without waiting
// for the stream. Pages are therefore mapped only once. New memory contains random numbers
// (MapRandomPages) and uses pages only where operations write. Only the host thread may use the
// pool.
class MemoryPool {
 public:
  // Two functions: one returns how many operations a stream has finished, and one returns how many
  // operations the host has issued to a stream. If another stream used a buffer, the buffer is free
  // when that other stream has finished the operations that were queued at the release.
  struct StreamPositions {
    std::function<std::uint64_t(std::uint16_t stream)> finished;
    std::function<std::uint64_t(std::uint16_t stream)> issued;
  };

  // Creates a pool. `limit` is the largest total size of allocated buffers, in bytes.
  MemoryPool(const std::vector<program::Buffer>& buffers, Bytes limit, std::uint64_t seed,
             StreamPositions positions);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  enum class Refusal { kLimit, kSystem };
  // Allocates the buffer, or returns the reason why this is impossible. Before a refusal, the
  // function waits for the streams by calling `wait`, and then returns unused cached memory to the
  // system.
  std::optional<Refusal> Allocate(program::Index buffer, std::uint16_t stream,
                                  const std::function<void()>& wait);
  void Release(program::Index buffer);
  void RecordStream(program::Index buffer, std::uint16_t stream);

  // Returns the memory of the buffer, or null if the buffer is not allocated.
  std::byte* Data(program::Index buffer) const { return held_[buffer].data; }

  Bytes in_use() const { return in_use_; }
  Bytes peak() const { return peak_; }
  Bytes reserved() const { return peak_reserved_; }

 private:
  struct Block {
    std::byte* data = nullptr;
    std::int64_t size = 0;
    std::uint16_t owner = 0;
    std::vector<std::uint16_t> users;  // other streams that use the block
  };
  struct Use {
    std::uint16_t stream;
    std::uint64_t position;
  };
  struct Pending {
    Block block;
    std::vector<Use> uses;
  };

  std::optional<Block> TakeCached(std::int64_t size, std::uint16_t stream);
  void ReturnFinished();
  void GiveBackCached();

  const std::vector<program::Buffer>& buffers_;
  Bytes limit_;
  std::uint64_t seed_;
  StreamPositions positions_;
  std::vector<Block> held_;                                 // [buffer]
  std::vector<std::multimap<std::int64_t, Block>> cached_;  // [stream]: released blocks by size
  std::vector<Pending> pending_;
  Bytes in_use_, peak_, reserved_, peak_reserved_;
};

}  // namespace stepcast::runtime::host
