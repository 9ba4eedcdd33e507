#include "src/runtime/cuda/caching_pool.h"

#include <algorithm>
#include <vector>

#include "src/base/check.h"

namespace stepcast::runtime::cuda {
namespace {

// CUDACachingAllocator's constants: kMinBlockSize, kSmallSize, kSmallBuffer, kMinLargeAlloc,
// kLargeBuffer, kRoundLarge.
constexpr std::int64_t kBlockUnit = 512;
constexpr std::int64_t kSmallBlock = 1 << 20;
constexpr std::int64_t kSmallSegment = 2 << 20;
constexpr std::int64_t kLargeBlock = 10 << 20;
constexpr std::int64_t kMediumSegment = 20 << 20;
constexpr std::int64_t kSegmentUnit = 2 << 20;

std::int64_t RoundedUp(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

std::int64_t SegmentSize(std::int64_t block) {
  if (block <= kSmallBlock) return kSmallSegment;
  if (block < kLargeBlock) return kMediumSegment;
  return RoundedUp(block, kSegmentUnit);
}

}  // namespace

CachingPool::~CachingPool() {
  for (const auto& [at, block] : blocks_) {
    if (block.before == nullptr) segments_.Give(at);
  }
}

std::byte* CachingPool::Allocate(Bytes size, std::uint16_t stream) {
  const std::int64_t rounded = RoundedUp(std::max<std::int64_t>(size.count(), 1), kBlockUnit);
  const FreeKey key{stream, rounded <= kSmallBlock};
  std::byte* at = TakeFree(rounded, key);
  if (at == nullptr) at = TakeSegment(rounded, key);
  if (at == nullptr) {
    GiveUnusedSegmentsBack();
    at = TakeSegment(rounded, key);
  }
  if (at == nullptr) return nullptr;
  Split(at, rounded);
  blocks_.at(at).free = false;
  return at;
}

// The smallest that fits, the lowest of those.
std::byte* CachingPool::TakeFree(std::int64_t size, FreeKey key) {
  FreeList& list = free_[key];
  const auto found = list.lower_bound({size, nullptr});
  if (found == list.end()) return nullptr;
  std::byte* at = found->second;
  list.erase(found);
  return at;
}

std::byte* CachingPool::TakeSegment(std::int64_t size, FreeKey key) {
  const std::int64_t segment_size = SegmentSize(size);
  std::byte* at = segments_.Take(Bytes(segment_size));
  if (at == nullptr) return nullptr;
  blocks_[at] = {.size = segment_size, .stream = key.first, .small = key.second};
  reserved_ += Bytes(segment_size);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return at;
}

// Gives what is beyond `size` to the free list, if it is worth it.
void CachingPool::Split(std::byte* at, std::int64_t size) {
  Block& block = blocks_.at(at);
  const std::int64_t rest = block.size - size;
  if (block.small ? rest < kBlockUnit : rest <= kSmallBlock) return;
  std::byte* rest_at = at + size;
  Block behind{.size = rest,
               .stream = block.stream,
               .small = block.small,
               .free = true,
               .before = at,
               .after = block.after};
  block.size = size;
  block.after = rest_at;
  if (behind.after != nullptr) blocks_.at(behind.after).before = rest_at;
  free_[{behind.stream, behind.small}].insert({rest, rest_at});
  blocks_[rest_at] = behind;
}

void CachingPool::Release(std::byte* at) {
  const auto found = blocks_.find(at);
  STEPCAST_CHECK(found != blocks_.end() && !found->second.free, "released what is not allocated");
  const FreeKey key{found->second.stream, found->second.small};
  FreeList& list = free_[key];
  if (std::byte* after = found->second.after; after != nullptr && blocks_.at(after).free) {
    list.erase({blocks_.at(after).size, after});
    Merge(at, after);
  }
  if (std::byte* before = blocks_.at(at).before; before != nullptr && blocks_.at(before).free) {
    list.erase({blocks_.at(before).size, before});
    Merge(before, at);
    at = before;
  }
  Block& block = blocks_.at(at);
  block.free = true;
  list.insert({block.size, at});
}

void CachingPool::Merge(std::byte* front, std::byte* back) {
  Block& first = blocks_.at(front);
  const Block second = blocks_.at(back);
  first.size += second.size;
  first.after = second.after;
  if (second.after != nullptr) blocks_.at(second.after).before = front;
  blocks_.erase(back);
}

void CachingPool::GiveUnusedSegmentsBack() {
  std::vector<std::byte*> unused;
  for (const auto& [at, block] : blocks_) {
    if (block.free && block.before == nullptr && block.after == nullptr) unused.push_back(at);
  }
  for (std::byte* at : unused) {
    const Block& block = blocks_.at(at);
    free_[{block.stream, block.small}].erase({block.size, at});
    reserved_ -= Bytes(block.size);
    blocks_.erase(at);
    segments_.Give(at);
  }
}

}  // namespace stepcast::runtime::cuda
