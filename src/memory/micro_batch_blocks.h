#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/memory/caching_allocator.h"
#include "src/program/program.h"

// The blocks that are live in a longer step (program/longer_step.h). One buffer of the program
// stands for buffers of several micro-batches there, so that a buffer does not name a block; a
// micro-batch and a purpose do.
namespace stepcast::memory {

// The owner of a block is a micro-batch, which holds one block at a time for each purpose.
// Allocations that two micro-batches make at the same place of a layer's pass have one purpose.
// A buffer that was allocated before the step has the owner kBeforeStep.
struct Owner {
  static constexpr std::uint32_t kBeforeStep = program::kNone;
  std::uint32_t micro_batch = kBeforeStep;
  std::uint32_t purpose = 0;

  // Buffers that the first micro-batch of a step allocates, such as gradients, serve all
  // micro-batches, and so do those from before the step.
  bool is_of_all() const { return micro_batch == kBeforeStep || micro_batch == 0; }
};

// Gives one owner for each allocation and each free of the program's step, in the step's order.
std::vector<Owner> OwnersOf(const program::Program& program);

// The blocks by their owners. `later` says by how many micro-batches the micro-batch that is meant
// comes after the owner's.
class MicroBatchBlocks {
 public:
  using Block = CachingAllocator::Block;

  void Clear() { micro_batches_.clear(); }
  void Add(const Owner& owner, std::int64_t later, Block block);
  // Gives the block and forgets it. kNoBlock means that there is none.
  Block Take(const Owner& owner, std::int64_t later);
  // The calls that the allocator has made, and the address and the size in bytes of every block of
  // micro-batches from `later` on, ordered by micro-batch and purpose. Micro-batches are counted
  // from `later`: the state is equal at two moments when each block lies where the corresponding
  // block of an earlier micro-batch lay.
  std::vector<std::int64_t> StateFrom(std::int64_t later, const CachingAllocator& allocator) const;

 private:
  struct OfMicroBatch {
    std::vector<Block> by_purpose;
    std::size_t live = 0;
  };
  OfMicroBatch& At(const Owner& owner, std::int64_t later);

  std::vector<OfMicroBatch> micro_batches_;
};

}  // namespace stepcast::memory
