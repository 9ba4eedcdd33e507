#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/memory/account.h"
#include "src/memory/caching_allocator.h"
#include "src/memory/deferred_frees.h"
#include "src/program/instruction.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

namespace stepcast::memory {

// A replay steps with this class through the periods that a longer step has and its program does
// not (program/instruction.h). When a period leaves the allocator in the state in which an earlier
// one left it, the periods between the two repeat from there on and add nothing to a peak: whole
// repetitions of them are skipped. Such a cycle often has several periods, because blocks of equal
// size change places and have their old ones again after as many micro-batches as are alive at
// once.
class LongerPeriods {
 public:
  explicit LongerPeriods(const program::LongerStep& longer)
      : left_(longer.more), micro_batches_(longer.micro_batches) {}

  // Goes on to the next period. It returns false when none is left.
  bool Next() {
    if (left_ == 0) return false;
    --left_;
    ++number_;
    return true;
  }

  // The present period comes `number` periods, or `later` micro-batches, after the program's last
  // one.
  std::int64_t number() const { return number_; }
  std::int64_t later() const { return number_ * micro_batches_; }

  // Look is to be called after the present period. Periods beyond the first 64 are not compared:
  // looking at a state takes about as long as replaying a period.
  bool looks() const { return left_ > 0 && number_ <= kLooks && !repeats_; }
  // `left_behind` is everything that decides what further periods do. Times and micro-batches in it
  // are counted from the end of the present period, so that states of two periods can be equal.
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
  std::vector<std::vector<std::int64_t>> seen_;  // the state after each period so far
};

// The blocks that are live in a longer step (program/instruction.h). One buffer of the program
// stands for buffers of several micro-batches there, so that a buffer does not name a block; a
// micro-batch and a purpose do.

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

// Replays any program change by change, at the times at which a run's host issued the changes.
// `deferred` must be the deferred frees of `program`. When `account` is not null, every change is
// noted there.
Usage ReplayTimed(const program::Program& program, const program::Timeline& timeline,
                  const DeferredFrees& deferred, const Device& device, const Steps& steps,
                  Account* account);

}  // namespace stepcast::memory
