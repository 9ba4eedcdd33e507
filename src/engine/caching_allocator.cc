#include "src/engine/caching_allocator.h"

#include <algorithm>
#include <iterator>

#include "src/base/check.h"

namespace stepcast::engine {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
// The names are those of CUDACachingAllocator.cpp.
constexpr std::int64_t kMinBlockSize = 512;
constexpr std::int64_t kSmallSize = kMiB;
constexpr std::int64_t kSmallBuffer = 2 * kMiB;
constexpr std::int64_t kLargeBuffer = 20 * kMiB;
constexpr std::int64_t kMinLargeAlloc = 10 * kMiB;
constexpr std::int64_t kRoundLarge = 2 * kMiB;
// Ranges of expandable segments lie this far apart: they never meet.
constexpr std::int64_t kRange = std::int64_t{1} << 52;

std::int64_t RoundUp(std::int64_t size, std::int64_t granule) {
  return (size + granule - 1) / granule * granule;
}

std::int64_t SegmentSize(std::int64_t size) {
  if (size <= kSmallSize) return kSmallBuffer;
  return size < kMinLargeAlloc ? kLargeBuffer : RoundUp(size, kRoundLarge);
}

}  // namespace

CachingAllocator::CachingAllocator(int streams, Settings settings) : settings_(settings) {
  STEPCAST_CHECK(streams > 0, "memory belongs to a stream");
  for (int s = 0; s < streams; ++s) {
    pools_.push_back({.small = true, .free = {}});
    pools_.push_back({.small = false, .free = {}});
  }
}

bool CachingAllocator::RoomFor(std::int64_t size) const {
  return reserved_ + Bytes(size) <= settings_.capacity;
}

void CachingAllocator::AddFree(Pieces::iterator piece) {
  auto& free = pools_[static_cast<std::size_t>(piece->second.pool)].free;
  const std::pair entry(piece->second.size, piece->first);
  free.insert(std::lower_bound(free.begin(), free.end(), entry), entry);
}

void CachingAllocator::DropFree(Pieces::iterator piece) {
  auto& free = pools_[static_cast<std::size_t>(piece->second.pool)].free;
  const std::pair entry(piece->second.size, piece->first);
  const auto found = std::lower_bound(free.begin(), free.end(), entry);
  STEPCAST_CHECK(found != free.end() && *found == entry, "a free block is listed");
  free.erase(found);
}

// Joins a block that is not listed with its free neighbours.
CachingAllocator::Pieces::iterator CachingAllocator::MergeNeighbours(Pieces::iterator piece) {
  const auto next = std::next(piece);
  if (next != pieces_.end() && !next->second.first && !next->second.live &&
      next->second.pool == piece->second.pool &&
      next->first == piece->first + piece->second.size) {
    DropFree(next);
    piece->second.size += next->second.size;
    pieces_.erase(next);
  }
  if (!piece->second.first && piece != pieces_.begin()) {
    const auto before = std::prev(piece);
    if (!before->second.live && before->first + before->second.size == piece->first) {
      DropFree(before);
      before->second.size += piece->second.size;
      pieces_.erase(piece);
      return before;
    }
  }
  return piece;
}

std::optional<CachingAllocator::Address> CachingAllocator::TakeFree(int pool, std::int64_t size) {
  const Pool& from = pools_[static_cast<std::size_t>(pool)];
  const auto found = std::lower_bound(from.free.begin(), from.free.end(),
                                      std::pair(size, std::int64_t{-1}));
  if (found == from.free.end()) return std::nullopt;
  const auto piece = pieces_.find(found->second);
  DropFree(piece);
  const std::int64_t rest = piece->second.size - size;
  const bool split = from.small || settings_.expandable_segments ? rest >= kMinBlockSize
                                                                 : rest > kSmallSize;
  if (split) {
    piece->second.size = size;
    const auto remainder =
        pieces_.emplace(piece->first + size, Piece{.size = rest, .pool = pool}).first;
    AddFree(remainder);
  }
  piece->second.live = true;
  return piece->first;
}

// A segment of its own, all of it one free block.
std::optional<CachingAllocator::Address> CachingAllocator::TakeSegment(int pool,
                                                                       std::int64_t size) {
  if (settings_.expandable_segments) {
    if (!Grow(pool, size)) return std::nullopt;
    return TakeFree(pool, size);
  }
  const std::int64_t segment = SegmentSize(size);
  if (!RoomFor(segment)) return std::nullopt;
  reserved_ += Bytes(segment);
  const auto piece =
      pieces_.emplace(next_address_, Piece{.size = segment, .pool = pool, .first = true}).first;
  next_address_ += segment;
  AddFree(piece);
  return TakeFree(pool, size);
}

// Maps as many granules at the end of the pool's range as make its last free block large enough.
bool CachingAllocator::Grow(int index, std::int64_t size) {
  Pool& pool = pools_[static_cast<std::size_t>(index)];
  const std::int64_t granule = pool.small ? kSmallBuffer : kLargeBuffer;
  if (pool.begin < 0) pool.begin = pool.end = kRange * (index + 1);
  std::int64_t at_end = 0;
  if (pool.end > pool.begin) {
    const auto last = std::prev(pieces_.lower_bound(pool.end));
    const bool ends_there = last->first + last->second.size == pool.end;
    if (ends_there && last->second.pool == index && !last->second.live) at_end = last->second.size;
  }
  const std::int64_t more = RoundUp(size - at_end, granule);
  if (!RoomFor(more)) return false;
  reserved_ += Bytes(more);
  auto piece = pieces_
                   .emplace(pool.end, Piece{.size = more,
                                            .pool = index,
                                            .first = pool.end == pool.begin})
                   .first;
  pool.end += more;
  AddFree(MergeNeighbours(piece));
  return true;
}

// Gives everything back that no live block needs.
void CachingAllocator::Flush() {
  ++flushes_;
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    if (piece->second.live) {
      ++piece;
      continue;
    }
    if (!settings_.expandable_segments) {
      const auto next = std::next(piece);
      const bool whole = piece->second.first && (next == pieces_.end() || next->second.first);
      if (!whole) {
        ++piece;
        continue;
      }
      DropFree(piece);
      reserved_ -= Bytes(piece->second.size);
      piece = pieces_.erase(piece);
      continue;
    }
    // The whole granules inside the block; what is left of it on either side stays.
    Pool& pool = pools_[static_cast<std::size_t>(piece->second.pool)];
    const std::int64_t granule = pool.small ? kSmallBuffer : kLargeBuffer;
    const Address begin = pool.begin + RoundUp(piece->first - pool.begin, granule);
    const Address piece_end = piece->first + piece->second.size;
    const Address end = pool.begin + (piece_end - pool.begin) / granule * granule;
    if (end <= begin) {
      ++piece;
      continue;
    }
    DropFree(piece);
    reserved_ -= Bytes(end - begin);
    const Piece old = piece->second;
    const Address old_begin = piece->first;
    piece = pieces_.erase(piece);
    if (begin > old_begin) {
      AddFree(pieces_
                  .emplace(old_begin, Piece{.size = begin - old_begin,
                                            .pool = old.pool,
                                            .first = old.first})
                  .first);
    }
    if (piece_end > end) {
      AddFree(pieces_.emplace(end, Piece{.size = piece_end - end, .pool = old.pool, .first = true})
                  .first);
    } else if (piece_end == pool.end) {
      pool.end = begin;  // the range shrinks, and grows from there again
    }
  }
}

std::optional<CachingAllocator::Block> CachingAllocator::Allocate(int stream, Bytes size) {
  const std::int64_t rounded = std::max(kMinBlockSize, RoundUp(size.count(), kMinBlockSize));
  const int pool = 2 * stream + (rounded <= kSmallSize ? 0 : 1);
  std::optional<Address> address = TakeFree(pool, rounded);
  if (!address) address = TakeSegment(pool, rounded);
  if (!address) {
    Flush();
    address = TakeSegment(pool, rounded);
  }
  if (!address) return std::nullopt;
  allocated_ += Bytes(pieces_.find(*address)->second.size);
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return address;
}

void CachingAllocator::Free(Block block) {
  const auto piece = pieces_.find(block);
  STEPCAST_CHECK(piece != pieces_.end() && piece->second.live, "only a live block can be freed");
  allocated_ -= Bytes(piece->second.size);
  piece->second.live = false;
  AddFree(MergeNeighbours(piece));
}

}  // namespace stepcast::engine
