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

// Maps `size` bytes, whole pages, to be released with munmap; null if the system has no more. The
// memory reads as random numbers of moderate size in every type: as bf16 between 1/128 and 2, as
// fp16 between 1 and 2; as fp32 the upper half decides. The process shares the pages until they are
// written, so unwritten memory costs nothing. If the process may not have a file of 16 MiB (`ulimit
// -f`), all pages are written at once. `seed` chooses where the numbers begin.
std::byte* MapRandomPages(std::int64_t size, std::uint64_t seed);

// The memory of a program's buffers: a caching allocator, as in training frameworks. A released
// block goes to the next buffer of about its size on the same stream, in host order, without
// waiting for the stream. Pages are therefore touched once and not in each step. New memory holds
// random numbers (MapRandomPages) and uses pages only where operations write. Only the host thread
// may use it.
class MemoryPool {
 public:
  // How many operations of a stream's queue are done, and how many were issued. A buffer that
  // another stream used is free when that stream has finished the operations queued at the release.
  struct StreamPositions {
    std::function<std::uint64_t(std::uint16_t stream)> finished;
    std::function<std::uint64_t(std::uint16_t stream)> issued;
  };

  // `limit`: the most bytes that buffers may have at once.
  MemoryPool(const std::vector<program::Buffer>& buffers, Bytes limit, std::uint64_t seed,
             StreamPositions positions);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  enum class Refusal { kLimit, kSystem };
  // Allocates the buffer, or returns the reason. Before it refuses, it returns cached memory that
  // no stream uses to the system. It first calls `wait`, which waits for the streams.
  std::optional<Refusal> Allocate(program::Index buffer, std::uint16_t stream,
                                  const std::function<void()>& wait);
  void Release(program::Index buffer);
  void RecordStream(program::Index buffer, std::uint16_t stream);

  // The buffer's memory; null if it is not allocated.
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
