#pragma once

#include <algorithm>
#include <cstdint>

// The sizes in which PyTorch's caching allocator deals with memory (caching_allocator.h), in bytes.
// The names are those of CUDACachingAllocator.cpp.
namespace stepcast::memory {

inline constexpr std::int64_t kMinBlockSize = 512;
inline constexpr std::int64_t kSmallSize = std::int64_t{1} << 20;
inline constexpr std::int64_t kSmallBuffer = std::int64_t{2} << 20;
inline constexpr std::int64_t kLargeBuffer = std::int64_t{20} << 20;
inline constexpr std::int64_t kMinLargeAlloc = std::int64_t{10} << 20;
inline constexpr std::int64_t kRoundLarge = std::int64_t{2} << 20;

constexpr std::int64_t RoundUp(std::int64_t size, std::int64_t granule) {
  return (size + granule - 1) / granule * granule;
}

// Rounding of requests.
constexpr std::int64_t BlockSize(std::int64_t size) {
  return std::max(kMinBlockSize, RoundUp(size, kMinBlockSize));
}

// Whether the small pool serves it, rounded up.
constexpr bool IsSmall(std::int64_t block) { return block <= kSmallSize; }

// The segment that is taken for it where no free block is large enough; not an expandable one.
constexpr std::int64_t SegmentSize(std::int64_t block) {
  if (IsSmall(block)) return kSmallBuffer;
  return block < kMinLargeAlloc ? kLargeBuffer : RoundUp(block, kRoundLarge);
}

}  // namespace stepcast::memory
