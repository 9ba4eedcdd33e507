#include "src/memory/caching_allocator.h"

#include <algorithm>
#include <bit>

#include "src/base/check.h"
#include "src/memory/segment_sizes.h"

namespace stepcast::memory {
namespace {

// Ranges of expandable segments lie this far apart: they never meet.
constexpr std::int64_t kRange = std::int64_t{1} << 52;

}  // namespace

void CachingAllocator::Reset(int streams, Settings settings) {
  STEPCAST_CHECK(streams > 0, "memory belongs to a stream");
  settings_ = settings;
  pools_.resize(2 * static_cast<std::size_t>(streams));
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    Pool& pool = pools_[p];
    for (std::size_t c = FirstClass(pool, 0); c < kClasses; c = FirstClass(pool, c + 1)) {
      pool.free[c].clear();
    }
    pool.has = {};
    pool.small = p % 2 == 0;
    pool.begin = pool.end = kRange * static_cast<std::int64_t>(p + 1);
    pool.last = kNone;
  }
  blocks_.clear();
  unused_.clear();
  next_address_ = 0;
  allocated_ = reserved_ = peak_allocated_ = peak_reserved_ = Bytes();
  calls_ = {};
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

// Ascending with the size; a size is a multiple of 512 B.
std::size_t ClassOf(std::int64_t size) {
  const auto units = static_cast<std::uint64_t>(size) / kMinBlockSize;
  constexpr std::uint64_t kOfTheirOwn = 4;
  if (units < kOfTheirOwn) return units;
  const int power = std::bit_width(units) - 1;
  return 4 * static_cast<std::size_t>(power - 1) + ((units >> (power - 2)) & 3);
}

// The order of a class: worse fits first.
constexpr auto kWorse = [](const auto& a, const auto& b) {
  return a.size != b.size ? a.size > b.size : a.address > b.address;
};

}  // namespace

// kClasses if there is none.
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
  const State& state = blocks_[block];
  Pool& pool = pools_[state.pool];
  if (pool.free.empty()) pool.free.resize(kClasses);
  const std::size_t index = ClassOf(state.size);
  std::vector<FreeBlock>& free = pool.free[index];
  pool.has[index / 64] |= std::uint64_t{1} << index % 64;
  const FreeBlock entry{.size = state.size, .address = state.address, .block = block};
  // Blocks are mostly freed in the order in which they fit.
  if (free.empty() || kWorse(free.back(), entry)) {
    free.push_back(entry);
  } else {
    free.insert(std::lower_bound(free.begin(), free.end(), entry, kWorse), entry);
  }
}

void CachingAllocator::DropFree(Block block) {
  const State& state = blocks_[block];
  Pool& pool = pools_[state.pool];
  const std::size_t index = ClassOf(state.size);
  std::vector<FreeBlock>& free = pool.free[index];
  const FreeBlock entry{.size = state.size, .address = state.address, .block = block};
  const auto found = free.back().block == block
                         ? free.end() - 1
                         : std::lower_bound(free.begin(), free.end(), entry, kWorse);
  STEPCAST_CHECK(found != free.end() && found->block == block, "a free block is listed");
  free.erase(found);
  if (free.empty()) pool.has[index / 64] &= ~(std::uint64_t{1} << index % 64);
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
  const std::size_t own = ClassOf(size);
  std::size_t index = FirstClass(from, own);
  if (index == kClasses) return std::nullopt;
  auto found = from.free[index].end() - 1;
  if (index == own && found->size < size) {
    // Some of the class are too small.
    std::vector<FreeBlock>& free = from.free[own];
    found = std::partition_point(free.begin(), free.end(),
                                 [size](const FreeBlock& entry) { return entry.size >= size; });
    if (found == free.begin()) {
      index = FirstClass(from, own + 1);
      if (index == kClasses) return std::nullopt;
      found = from.free[index].end();
    }
    --found;
  }
  std::vector<FreeBlock>& free = from.free[index];
  const Block block = found->block;
  free.erase(found);
  if (free.empty()) from.has[index / 64] &= ~(std::uint64_t{1} << index % 64);
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
  Reserve(segment, 1);
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
  Reserve(more, more / (pool.small ? kSmallBuffer : kLargeBuffer));
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
    // What is given back changes the lists.
    std::vector<Block> free;
    for (const std::vector<FreeBlock>& of_class : pool.free) {
      for (auto entry = of_class.rbegin(); entry != of_class.rend(); ++entry) {
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

void CachingAllocator::Reserve(std::int64_t size, std::int64_t calls) {
  reserved_ += Bytes(size);
  calls_.allocations += calls;
}

void CachingAllocator::Unreserve(std::int64_t size, std::int64_t calls) {
  reserved_ -= Bytes(size);
  calls_.frees += calls;
}

void CachingAllocator::GiveBack(Block block) {
  Unreserve(blocks_[block].size, 1);
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
  Unreserve(end - begin, (end - begin) / granule);
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
