#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/memory/caching_allocator.h"
#include "src/program/program.h"

// What a longer step (program/longer_step.h) holds: a program's buffer stands for those of several
// micro-batches there, so blocks are known by micro-batch and purpose.
namespace stepcast::memory {

// Which allocation of a step an allocation or a free is about: what a micro-batch has for one
// purpose, which is what others have at the same place of a layer's pass. It has one block at a
// time for it. Not of the step: what was allocated before it.
struct Owner {
  static constexpr std::uint32_t kBeforeStep = program::kNone;
  std::uint32_t micro_batch = kBeforeStep;
  std::uint32_t purpose = 0;

  // What the first micro-batch allocates stays for all of them.
  bool is_of_all() const { return micro_batch == kBeforeStep || micro_batch == 0; }
};

// Of the allocations and frees of a program's step, in its order.
std::vector<Owner> OwnersOf(const program::Program& program);

class MicroBatchBlocks {
 public:
  using Block = CachingAllocator::Block;

  void Clear() { micro_batches_.clear(); }
  // For an owner's micro-batch that is so many later.
  void Add(const Owner& owner, std::int64_t later, Block block);
  // kNoBlock: it has none.
  Block Take(const Owner& owner, std::int64_t later);
  // All of them from micro-batch `later` on, and where they lie: by micro-batch, counted from
  // `later`, then by purpose. Two moments have the same of these where all blocks lie where those
  // of micro-batches before them lay.
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
