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

// Memory of `size` bytes, whole pages, that is to be given back with munmap; null where the system
// has no more. It reads as random numbers that are moderate in every type: as bf16 their magnitudes
// lie between 1/128 and 2, as fp16 between 1 and 2, and as fp32 the upper half decides. Pages are
// the process's common ones until they are written, so what is never written costs nothing, however
// large it is, unless the process may not have a file of 16 MiB (`ulimit -f`): then they are
// written at once. `seed` chooses where the numbers begin.
std::byte* MapRandomPages(std::int64_t size, std::uint64_t seed);

// The memory of a program's buffers: a caching allocator, as training frameworks have one. What is
// released goes to the next buffer of about that size on the same stream, in host order, without
// waiting for the stream; so pages are touched once and not in each step. New memory holds random
// numbers (memory_pool.h) and takes up pages only where operations write: most of a gradient
// bucket may never be used, nor what activations a plan has. Used by the host thread alone.
class MemoryPool {
 public:
  // How much of a stream's queue is over, and how much is in it: a buffer that another stream used
  // is free again when that stream has done what stood in its queue at the release.
  struct StreamPositions {
    std::function<std::uint64_t(std::uint16_t stream)> finished;
    std::function<std::uint64_t(std::uint16_t stream)> issued;
  };

  // `limit`: most bytes that buffers may have at once.
  MemoryPool(const std::vector<program::Buffer>& buffers, Bytes limit, std::uint64_t seed,
             StreamPositions positions);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  enum class Refusal { kLimit, kSystem };
  // Why there is no memory for the buffer; nothing if there is. Cached memory is given back to the
  // system before it is refused, as far as no stream is at it; `wait` is called first to make the
  // streams finish.
  std::optional<Refusal> Allocate(program::Index buffer, std::uint16_t stream,
                                  const std::function<void()>& wait);
  void Release(program::Index buffer);
  void RecordStream(program::Index buffer, std::uint16_t stream);

  // The buffer's memory; null when it has none now.
  std::byte* Data(program::Index buffer) const { return held_[buffer].data; }

  Bytes in_use() const { return in_use_; }
  Bytes peak() const { return peak_; }
  Bytes reserved() const { return peak_reserved_; }

 private:
  struct Block {
    std::byte* data = nullptr;
    std::int64_t size = 0;
    std::uint16_t owner = 0;
    std::vector<std::uint16_t> users;  // other streams
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
  std::vector<Block> held_;                                 // by buffer
  std::vector<std::multimap<std::int64_t, Block>> cached_;  // by stream, by size
  std::vector<Pending> pending_;
  Bytes in_use_, peak_, reserved_, peak_reserved_;
};

}  // namespace stepcast::runtime::host
