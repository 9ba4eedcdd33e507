#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/memory/caching_allocator.h"
#include "src/program/instruction.h"
#include "src/program/program.h"

namespace stepcast::memory {

// The additional periods of a longer step (program/instruction.h) in a replay. If two periods end
// with the same allocator state, the periods between them repeat without a higher peak, and are
// skipped. A repetition may have several periods, because blocks of equal size exchange positions.
class LongerPeriods {
 public:
  explicit LongerPeriods(const program::LongerStep& longer)
      : left_(longer.more), micro_batches_(longer.micro_batches) {}

  // Advances to the next period. Returns false after the last period.
  bool Next() {
    if (left_ == 0) return false;
    --left_;
    ++number_;
    return true;
  }

  // `number()` is the number of periods after the program's last period, up to the current period.
  // `later()` is the corresponding number of micro-batches.
  std::int64_t number() const { return number_; }
  std::int64_t later() const { return number_ * micro_batches_; }

  // Returns whether to call Look after the current period. Only the first 64 periods are compared,
  // because a comparison takes about as long as the replay of a period.
  bool looks() const { return left_ > 0 && number_ <= kLooks && !repeats_; }
  // Compares the state after the current period with earlier states. `left_behind` is the state
  // that affects later periods. The times and micro-batches in this state must be relative to the
  // end of the current period, so that the states of two periods can be equal.
  void Look(std::vector<std::int64_t> left_behind) {
    const auto as_before = std::find(seen_.begin(), seen_.end(), left_behind);
    repeats_ = as_before != seen_.end();
    if (repeats_) left_ %= seen_.end() - as_before;
    seen_.push_back(std::move(left_behind));
  }

 private:
  static constexpr std::int64_t kLooks = 64;

  std::int64_t left_, micro_batches_, number_ = 0;
  bool repeats_ = false;
  std::vector<std::vector<std::int64_t>> seen_;  // the state after each period
};

// The live blocks in a longer step (program/instruction.h). A buffer of the program represents
// buffers of several micro-batches, so a block is identified by micro-batch and purpose.

// The owner of a block: a micro-batch and a purpose, with at most one block. Corresponding
// allocations of different micro-batches have the same purpose. Buffers allocated before the step
// have the micro-batch kBeforeStep.
struct Owner {
  static constexpr std::uint32_t kBeforeStep = program::kNone;
  std::uint32_t micro_batch = kBeforeStep;
  std::uint32_t purpose = 0;

  // Returns whether all micro-batches use the owner's buffer. This is true if the buffer is
  // allocated before the step, or by the first micro-batch of the step, such as gradients.
  bool is_of_all() const { return micro_batch == kBeforeStep || micro_batch == 0; }
};

// Returns the owner for each allocation and free of the program's step, in order.
std::vector<Owner> OwnersOf(const program::Program& program);

// Stores blocks by owner. `later` is added to the owner's micro-batch.
class MicroBatchBlocks {
 public:
  using Block = CachingAllocator::Block;

  void Clear() { micro_batches_.clear(); }
  void Add(const Owner& owner, std::int64_t later, Block block);
  // Removes and returns a block, or returns kNoBlock if the owner has no block.
  Block Take(const Owner& owner, std::int64_t later);
  // Returns the state of the allocator. The state has the driver calls so far, and the address and
  // size in bytes of every block of a micro-batch from `later` on. Blocks are sorted by
  // micro-batch, relative to `later`, and by purpose. Two states are equal if corresponding blocks
  // are at the same address.
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
