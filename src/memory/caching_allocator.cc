#include "src/memory/caching_allocator.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/check.h"

namespace stepcast::memory {
namespace {

// Distance between the ranges of expandable segments, so that they never meet.
constexpr std::int64_t kRange = std::int64_t{1} << 52;

}  // namespace

void CachingAllocator::Reset(int streams, Settings settings) {
  STEPCAST_CHECK(streams > 0, "memory must belong to a stream");
  settings_ = settings;
  pools_.resize(2 * static_cast<std::size_t>(streams));
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    Pool& pool = pools_[p];
    pool.best.fill(kNoBlock);
    pool.has = {};
    pool.small = p % 2 == 0;
    pool.begin = pool.end = kRange * static_cast<std::int64_t>(p + 1);
    pool.last = kNoBlock;
  }
  blocks_.clear();
  unused_.clear();
  next_address_ = 0;
  allocated_ = reserved_ = peak_reserved_ = Bytes();
  calls_ = {};
}

bool CachingAllocator::RoomFor(std::int64_t size) const {
  return reserved_ + Bytes(size) <= settings_.capacity;
}

// Returns an entry of blocks_ for a new block. Invalidates references to others.
CachingAllocator::Block CachingAllocator::NewEntry() {
  if (unused_.empty()) {
    blocks_.emplace_back();
    return static_cast<Block>(blocks_.size() - 1);
  }
  const Block block = unused_.back();
  unused_.pop_back();
  return block;
}

// Removes a block from its segment's chain.
void CachingAllocator::Forget(Block block) {
  const State& state = blocks_[block];
  if (state.before != kNoBlock) blocks_[state.before].after = state.after;
  if (state.after != kNoBlock) blocks_[state.after].before = state.before;
  Pool& pool = pools_[state.pool];
  if (pool.last == block) pool.last = state.before;
  unused_.push_back(block);
}

namespace {

// The class of a size, which is a multiple of 512 B. Classes ascend with the size.
std::size_t ClassOf(std::int64_t size) {
  const auto units = static_cast<std::uint64_t>(size) / kMinBlockSize;
  constexpr std::uint64_t kOfTheirOwn = 4;
  if (units < kOfTheirOwn) return units;
  const int power = std::bit_width(units) - 1;
  return 4 * static_cast<std::size_t>(power - 1) + ((units >> (power - 2)) & 3);
}

}  // namespace

// The first non-empty class at or after `from`; kClasses if there is none.
std::size_t CachingAllocator::FirstClass(const Pool& pool, std::size_t from) {
  constexpr std::size_t kBits = 64;
  std::size_t word = from / kBits;
  if (word >= pool.has.size()) return kClasses;
  std::uint64_t bits = pool.has[word] & (~std::uint64_t{0} << from % kBits);
  while (bits == 0) {
    if (++word == pool.has.size()) return kClasses;
    bits = pool.has[word];
  }
  return word * kBits + static_cast<std::size_t>(std::countr_zero(bits));
}

void CachingAllocator::AddFree(Block block) {
  State& state = blocks_[block];
  Pool& pool = pools_[state.pool];
  const std::size_t index = ClassOf(state.size);
  Block better = kNoBlock, worse = pool.best[index];
  if (worse == kNoBlock) pool.has[index / 64] |= std::uint64_t{1} << index % 64;
  // Blocks are mostly freed in the order in which they fit.
  while (worse != kNoBlock &&
         (blocks_[worse].size != state.size ? blocks_[worse].size < state.size
                                            : blocks_[worse].address < state.address)) {
    better = std::exchange(worse, blocks_[worse].worse);
  }
  state.better = better;
  state.worse = worse;
  (better == kNoBlock ? pool.best[index] : blocks_[better].worse) = block;
  if (worse != kNoBlock) blocks_[worse].better = block;
}

void CachingAllocator::DropFree(Block block) {
  const State& state = blocks_[block];
  if (state.worse != kNoBlock) blocks_[state.worse].better = state.better;
  if (state.better != kNoBlock) {
    blocks_[state.better].worse = state.worse;
    return;
  }
  Pool& pool = pools_[state.pool];
  const std::size_t index = ClassOf(state.size);
  STEPCAST_CHECK(pool.best[index] == block, "a free block must be in the list of its size class");
  pool.best[index] = state.worse;
  if (state.worse == kNoBlock) pool.has[index / 64] &= ~(std::uint64_t{1} << index % 64);
}

// Merges a block that is in no free list with its free neighbors.
CachingAllocator::Block CachingAllocator::MergeNeighbours(Block block) {
  const Block after = blocks_[block].after;
  if (after != kNoBlock && !blocks_[after].live) {
    DropFree(after);
    blocks_[block].size += blocks_[after].size;
    if (pools_[blocks_[block].pool].last == after) pools_[blocks_[block].pool].last = block;
    Forget(after);
  }
  const Block before = blocks_[block].before;
  if (before == kNoBlock || blocks_[before].live) return block;
  DropFree(before);
  blocks_[before].size += blocks_[block].size;
  if (pools_[blocks_[block].pool].last == block) pools_[blocks_[block].pool].last = before;
  Forget(block);
  return before;
}

CachingAllocator::Block CachingAllocator::TakeFree(std::uint32_t pool, std::int64_t size) {
  const Pool& from = pools_[pool];
  // Some blocks of the size's own class may be too small.
  const std::size_t own = ClassOf(size);
  Block block = from.best[own];
  while (block != kNoBlock && blocks_[block].size < size) block = blocks_[block].worse;
  if (block == kNoBlock) {
    const std::size_t larger = FirstClass(from, own + 1);
    if (larger == kClasses) return kNoBlock;
    block = from.best[larger];
  }
  DropFree(block);
  const std::int64_t rest = blocks_[block].size - size;
  const bool split =
      from.small || settings_.expandable_segments ? rest >= kMinBlockSize : rest > kSmallSize;
  if (split) {
    const Block remainder = NewEntry();
    State& whole = blocks_[block];
    blocks_[remainder] = {.address = whole.address + size,
                          .size = rest,
                          .before = block,
                          .after = whole.after,
                          .pool = pool};
    if (whole.after != kNoBlock) blocks_[whole.after].before = remainder;
    whole.after = remainder;
    whole.size = size;
    if (from.last == block) pools_[pool].last = remainder;
    AddFree(remainder);
  }
  blocks_[block].live = true;
  return block;
}

// Makes a segment that is one free block, and allocates the request from it.
CachingAllocator::Block CachingAllocator::TakeSegment(std::uint32_t pool, std::int64_t size) {
  if (settings_.expandable_segments) {
    if (!Grow(pool, size)) return kNoBlock;
    return TakeFree(pool, size);
  }
  const std::int64_t segment = SegmentSize(size);
  if (!RoomFor(segment)) return kNoBlock;
  Reserve(segment, 1);
  const Block block = NewEntry();
  blocks_[block] = {.address = next_address_, .size = segment, .pool = pool};
  AddFree(block);
  next_address_ += segment;
  return TakeFree(pool, size);
}

// Maps granules at the end of the pool's range until its last free block is large enough.
bool CachingAllocator::Grow(std::uint32_t index, std::int64_t size) {
  Pool& pool = pools_[index];
  const bool free_end = pool.last != kNoBlock && !blocks_[pool.last].live;
  const std::int64_t at_end = free_end ? blocks_[pool.last].size : 0;
  const std::int64_t more = RoundUp(size - at_end, pool.small ? kSmallBuffer : kLargeBuffer);
  if (!RoomFor(more)) return false;
  Reserve(more, more / (pool.small ? kSmallBuffer : kLargeBuffer));
  const Block block = NewEntry();
  blocks_[block] = {.address = pool.end, .size = more, .before = pool.last, .pool = index};
  if (pool.last != kNoBlock) blocks_[pool.last].after = block;
  pool.last = block;
  pool.end += more;
  AddFree(MergeNeighbours(block));
  return true;
}

// Returns all memory without live blocks.
void CachingAllocator::Flush() {
  const Bytes before = reserved_;
  for (Pool& pool : pools_) {
    // Freeing blocks changes the lists, so the blocks are collected first.
    std::vector<Block> free;
    for (Block block : pool.best) {
      for (; block != kNoBlock; block = blocks_[block].worse) free.push_back(block);
    }
    for (const Block block : free) {
      if (settings_.expandable_segments) {
        GiveBackGranules(block);
      } else if (blocks_[block].before == kNoBlock && blocks_[block].after == kNoBlock) {
        GiveBack(block);
      }
    }
  }
  if (reserved_ < before) ++calls_.flushes;
}

void CachingAllocator::Reserve(std::int64_t size, std::int64_t calls) {
  reserved_ += Bytes(size);
  calls_.allocations += calls;
}

void CachingAllocator::Unreserve(std::int64_t size, std::int64_t calls) {
  reserved_ -= Bytes(size);
  calls_.given_back += Bytes(size);
  calls_.frees += calls;
}

void CachingAllocator::GiveBack(Block block) {
  Unreserve(blocks_[block].size, 1);
  DropFree(block);
  Forget(block);
}

// Returns the whole granules inside a free block; the remainder on each side stays. The blocks on
// both sides of the hole are no longer neighbors.
void CachingAllocator::GiveBackGranules(Block block) {
  const State old = blocks_[block];
  Pool& pool = pools_[old.pool];
  const std::int64_t granule = pool.small ? kSmallBuffer : kLargeBuffer;
  const std::int64_t old_end = old.address + old.size;
  const std::int64_t begin = pool.begin + RoundUp(old.address - pool.begin, granule);
  const std::int64_t end = pool.begin + (old_end - pool.begin) / granule * granule;
  if (end <= begin) return;
  Unreserve(end - begin, (end - begin) / granule);
  DropFree(block);
  const bool last = pool.last == block;
  Forget(block);
  if (old.before != kNoBlock) blocks_[old.before].after = kNoBlock;
  if (old.after != kNoBlock) blocks_[old.after].before = kNoBlock;
  if (last) {  // the range shrinks, and grows from there again
    pool.end = begin;
    if (old.before != kNoBlock && begin == old.address) {
      pool.last = old.before;
    } else {
      pool.last = kNoBlock;
    }
  }
  if (begin > old.address) {
    const Block left = NewEntry();
    blocks_[left] = {.address = old.address,
                     .size = begin - old.address,
                     .before = old.before,
                     .pool = old.pool};
    if (old.before != kNoBlock) blocks_[old.before].after = left;
    if (last) pool.last = left;
    AddFree(left);
  }
  if (old_end > end) {
    const Block right = NewEntry();
    blocks_[right] = {.address = end, .size = old_end - end, .after = old.after, .pool = old.pool};
    if (old.after != kNoBlock) blocks_[old.after].before = right;
    AddFree(right);
  }
}

namespace {

std::uint32_t PoolOf(int stream, std::int64_t rounded) {
  return static_cast<std::uint32_t>(2 * stream + (IsSmall(rounded) ? 0 : 1));
}

}  // namespace

CachingAllocator::Block CachingAllocator::HandOut(Block block) {
  if (block == kNoBlock) return block;
  allocated_ += Bytes(blocks_[block].size);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return block;
}

CachingAllocator::Block CachingAllocator::TryAllocate(int stream, Bytes size) {
  const std::int64_t rounded = BlockSize(size.count());
  const std::uint32_t pool = PoolOf(stream, rounded);
  const Block block = TakeFree(pool, rounded);
  return HandOut(block != kNoBlock ? block : TakeSegment(pool, rounded));
}

CachingAllocator::Block CachingAllocator::FlushAndAllocate(int stream, Bytes size) {
  const std::int64_t rounded = BlockSize(size.count());
  Flush();
  return HandOut(TakeSegment(PoolOf(stream, rounded), rounded));
}

void CachingAllocator::Free(Block block) {
  STEPCAST_CHECK(block < blocks_.size() && blocks_[block].live,
                 "only an allocated block can be "
                 "freed");
  allocated_ -= Bytes(blocks_[block].size);
  blocks_[block].live = false;
  AddFree(MergeNeighbours(block));
}

}  // namespace stepcast::memory
