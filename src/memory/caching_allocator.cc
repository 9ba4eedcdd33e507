#include "src/memory/caching_allocator.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/memory/segment_sizes.h"

namespace stepcast::memory {
namespace {

// Ranges of expandable segments lie this far apart: they never meet.
constexpr std::int64_t kRange = std::int64_t{1} << 52;

}  // namespace

CachingAllocator::CachingAllocator(int streams, Settings settings) : settings_(settings) {
  STEPCAST_CHECK(streams > 0, "memory belongs to a stream");
  pools_.resize(2 * static_cast<std::size_t>(streams));
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    pools_[p].small = p % 2 == 0;
    pools_[p].begin = pools_[p].end = kRange * static_cast<std::int64_t>(p + 1);
  }
}

bool CachingAllocator::RoomFor(std::int64_t size) const {
  return reserved_ + Bytes(size) <= settings_.capacity;
}

CachingAllocator::Block CachingAllocator::NewBlock(const State& state) {
  if (unused_.empty()) {
    blocks_.push_back(state);
    return static_cast<Block>(blocks_.size() - 1);
  }
  const Block block = unused_.back();
  unused_.pop_back();
  blocks_[block] = state;
  return block;
}

// Takes a block out of its segment's chain.
void CachingAllocator::Forget(Block block) {
  const State& state = blocks_[block];
  if (state.before != kNone) blocks_[state.before].after = state.after;
  if (state.after != kNone) blocks_[state.after].before = state.before;
  Pool& pool = pools_[state.pool];
  if (pool.last == block) pool.last = state.before;
  unused_.push_back(block);
}

namespace {

constexpr auto kSmallerThan = [](const auto& blocks, std::int64_t size) {
  return blocks.size < size;
};
constexpr auto kHigherThan = [](const auto& entry, std::int64_t address) {
  return entry.address > address;
};

}  // namespace

CachingAllocator::FreeBlocks& CachingAllocator::FreeOfSize(Pool& pool, std::int64_t size) {
  const auto found = std::lower_bound(pool.free.begin(), pool.free.end(), size, kSmallerThan);
  if (found != pool.free.end() && found->size == size) return *found;
  return *pool.free.insert(found, {.size = size, .blocks = {}});
}

void CachingAllocator::AddFree(Block block) {
  const State& state = blocks_[block];
  auto& blocks = FreeOfSize(pools_[state.pool], state.size).blocks;
  blocks.insert(std::lower_bound(blocks.begin(), blocks.end(), state.address, kHigherThan),
                {.address = state.address, .block = block});
}

void CachingAllocator::DropFree(Block block) {
  const State& state = blocks_[block];
  Pool& pool = pools_[state.pool];
  const auto of_size =
      std::lower_bound(pool.free.begin(), pool.free.end(), state.size, kSmallerThan);
  STEPCAST_CHECK(of_size != pool.free.end() && of_size->size == state.size,
                 "a free block is listed");
  auto& blocks = of_size->blocks;
  const auto found = std::lower_bound(blocks.begin(), blocks.end(), state.address, kHigherThan);
  STEPCAST_CHECK(found != blocks.end() && found->block == block, "a free block is listed");
  blocks.erase(found);
  DropIfEmpty(pool, of_size);
}

void CachingAllocator::DropIfEmpty(Pool& pool, std::vector<FreeBlocks>::iterator of_size) {
  if (of_size->blocks.empty() && pool.free.size() > kKeptSizes) pool.free.erase(of_size);
}

// Joins a block that is not listed with its free neighbours.
CachingAllocator::Block CachingAllocator::MergeNeighbours(Block block) {
  const Block after = blocks_[block].after;
  if (after != kNone && !blocks_[after].live) {
    DropFree(after);
    blocks_[block].size += blocks_[after].size;
    if (pools_[blocks_[block].pool].last == after) pools_[blocks_[block].pool].last = block;
    Forget(after);
  }
  const Block before = blocks_[block].before;
  if (before == kNone || blocks_[before].live) return block;
  DropFree(before);
  blocks_[before].size += blocks_[block].size;
  if (pools_[blocks_[block].pool].last == block) pools_[blocks_[block].pool].last = before;
  Forget(block);
  return before;
}

std::optional<CachingAllocator::Block> CachingAllocator::TakeFree(std::uint32_t pool,
                                                                  std::int64_t size) {
  Pool& from = pools_[pool];
  auto found = std::lower_bound(from.free.begin(), from.free.end(), size, kSmallerThan);
  while (found != from.free.end() && found->blocks.empty()) ++found;
  if (found == from.free.end()) return std::nullopt;
  const Block block = found->blocks.back().block;
  found->blocks.pop_back();
  DropIfEmpty(from, found);
  const std::int64_t rest = blocks_[block].size - size;
  const bool split =
      from.small || settings_.expandable_segments ? rest >= kMinBlockSize : rest > kSmallSize;
  if (split) {
    const State& whole = blocks_[block];
    const Block remainder = NewBlock({.address = whole.address + size,
                                      .size = rest,
                                      .before = block,
                                      .after = whole.after,
                                      .pool = pool});
    if (blocks_[block].after != kNone) blocks_[blocks_[block].after].before = remainder;
    blocks_[block].after = remainder;
    blocks_[block].size = size;
    if (from.last == block) from.last = remainder;
    AddFree(remainder);
  }
  blocks_[block].live = true;
  return block;
}

// A segment, all of it one free block, and the request out of it.
std::optional<CachingAllocator::Block> CachingAllocator::TakeSegment(std::uint32_t pool,
                                                                     std::int64_t size) {
  if (settings_.expandable_segments) {
    if (!Grow(pool, size)) return std::nullopt;
    return TakeFree(pool, size);
  }
  const std::int64_t segment = SegmentSize(size);
  if (!RoomFor(segment)) return std::nullopt;
  Reserve(segment);
  AddFree(NewBlock({.address = next_address_, .size = segment, .pool = pool}));
  next_address_ += segment;
  return TakeFree(pool, size);
}

// Maps as many granules at the end of the pool's range as make its last free block large enough.
bool CachingAllocator::Grow(std::uint32_t index, std::int64_t size) {
  Pool& pool = pools_[index];
  const bool free_end = pool.last != kNone && !blocks_[pool.last].live;
  const std::int64_t at_end = free_end ? blocks_[pool.last].size : 0;
  const std::int64_t more = RoundUp(size - at_end, pool.small ? kSmallBuffer : kLargeBuffer);
  if (!RoomFor(more)) return false;
  Reserve(more);
  const Block block =
      NewBlock({.address = pool.end, .size = more, .before = pool.last, .pool = index});
  if (pool.last != kNone) blocks_[pool.last].after = block;
  pool.last = block;
  pool.end += more;
  AddFree(MergeNeighbours(block));
  return true;
}

// Gives everything back that no live block needs.
void CachingAllocator::Flush() {
  const Bytes before = reserved_;
  for (Pool& pool : pools_) {
    // What is given back changes the list.
    std::vector<Block> free;
    for (const FreeBlocks& of_size : pool.free) {
      for (auto entry = of_size.blocks.rbegin(); entry != of_size.blocks.rend(); ++entry) {
        free.push_back(entry->block);
      }
    }
    for (const Block block : free) {
      if (settings_.expandable_segments) {
        GiveBackGranules(block);
      } else if (blocks_[block].before == kNone && blocks_[block].after == kNone) {
        GiveBack(block);
      }
    }
  }
  if (reserved_ < before) ++calls_.flushes;
}

void CachingAllocator::Reserve(std::int64_t size) {
  reserved_ += Bytes(size);
  ++calls_.allocations;
  calls_.allocated += Bytes(size);
}

void CachingAllocator::Unreserve(std::int64_t size) {
  reserved_ -= Bytes(size);
  ++calls_.frees;
  calls_.freed += Bytes(size);
}

void CachingAllocator::GiveBack(Block block) {
  Unreserve(blocks_[block].size);
  DropFree(block);
  Forget(block);
}

// The whole granules inside a free block; what is left of it on either side stays. Blocks on the
// two sides of the hole are no neighbours any more.
void CachingAllocator::GiveBackGranules(Block block) {
  const State old = blocks_[block];
  Pool& pool = pools_[old.pool];
  const std::int64_t granule = pool.small ? kSmallBuffer : kLargeBuffer;
  const std::int64_t old_end = old.address + old.size;
  const std::int64_t begin = pool.begin + RoundUp(old.address - pool.begin, granule);
  const std::int64_t end = pool.begin + (old_end - pool.begin) / granule * granule;
  if (end <= begin) return;
  Unreserve(end - begin);
  DropFree(block);
  const bool last = pool.last == block;
  Forget(block);
  if (old.before != kNone) blocks_[old.before].after = kNone;
  if (old.after != kNone) blocks_[old.after].before = kNone;
  if (last) {  // the range shrinks, and grows from there again
    pool.end = begin;
    if (old.before != kNone && begin == old.address) {
      pool.last = old.before;
    } else {
      pool.last = kNone;
    }
  }
  if (begin > old.address) {
    const Block left = NewBlock({.address = old.address,
                                 .size = begin - old.address,
                                 .before = old.before,
                                 .pool = old.pool});
    if (old.before != kNone) blocks_[old.before].after = left;
    if (last) pool.last = left;
    AddFree(left);
  }
  if (old_end > end) {
    const Block right =
        NewBlock({.address = end, .size = old_end - end, .after = old.after, .pool = old.pool});
    if (old.after != kNone) blocks_[old.after].before = right;
    AddFree(right);
  }
}

namespace {

std::uint32_t PoolOf(int stream, std::int64_t rounded) {
  return static_cast<std::uint32_t>(2 * stream + (IsSmall(rounded) ? 0 : 1));
}

}  // namespace

std::optional<CachingAllocator::Block> CachingAllocator::HandOut(std::optional<Block> block) {
  if (!block) return block;
  allocated_ += Bytes(blocks_[*block].size);
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return block;
}

std::optional<CachingAllocator::Block> CachingAllocator::TryAllocate(int stream, Bytes size) {
  const std::int64_t rounded = BlockSize(size.count());
  const std::uint32_t pool = PoolOf(stream, rounded);
  const std::optional<Block> block = TakeFree(pool, rounded);
  return HandOut(block ? block : TakeSegment(pool, rounded));
}

std::optional<CachingAllocator::Block> CachingAllocator::FlushAndAllocate(int stream, Bytes size) {
  const std::int64_t rounded = BlockSize(size.count());
  Flush();
  return HandOut(TakeSegment(PoolOf(stream, rounded), rounded));
}

void CachingAllocator::Free(Block block) {
  STEPCAST_CHECK(block < blocks_.size() && blocks_[block].live, "only a live block can be freed");
  allocated_ -= Bytes(blocks_[block].size);
  blocks_[block].live = false;
  AddFree(MergeNeighbours(block));
}

}  // namespace stepcast::memory
