#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

// Loads and stores of several elements at once, for kernels over long arrays.
namespace stepcast::runtime::cuda {

template <typename T, int kElements>
struct alignas(sizeof(T) * kElements) Pack {
  T at[kElements];
};

inline constexpr int kThreads = 256;
inline constexpr int kPack = 4;  // elements; 16 bytes in FP32

// Returns the number of blocks with which each thread processes one item. The result is limited to
// several times the number of blocks that a GPU runs at once. At the limit, threads loop over
// items.
inline unsigned BlocksFor(std::int64_t items) {
  constexpr std::int64_t kMostBlocks = 8192;
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((items + kThreads - 1) / kThreads, 1, kMostBlocks));
}

// Returns whether `address` is aligned for packs of kPack elements of this size.
inline bool PacksFit(const void* address, std::int64_t element_size) {
  return reinterpret_cast<std::uintptr_t>(address) % (kPack * element_size) == 0;
}

inline __device__ std::int64_t FirstItem() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
inline __device__ std::int64_t ItemStride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

// A thread's part of an array: every `stride`-th item, starting with `first`.
struct Share {
  std::int64_t first, stride;
};

// Calls `body(count, i)` for all elements of the thread's part. Each call processes `count`
// elements, starting with element i. If `packed` is true, `count` is kPack for complete packs. In
// all other cases, `count` is 1.
template <typename Body>
__device__ void ForPacks(Share share, std::int64_t elements, bool packed, const Body& body) {
  const std::int64_t packs = packed ? elements / kPack : 0;
  for (std::int64_t pack = share.first; pack < packs; pack += share.stride) {
    body(std::integral_constant<int, kPack>(), pack * kPack);
  }
  for (std::int64_t i = packs * kPack + share.first; i < elements; i += share.stride) {
    body(std::integral_constant<int, 1>(), i);
  }
}

// Several pieces of work in one launch. Each piece has separate blocks. The struct is the kernel's
// argument, so its size is at most 4 KiB, the limit for arguments.
template <typename Piece>
struct Pieces {
  static constexpr int kMost = 48;
  Piece at[kMost];
  unsigned first_block[kMost + 1];  // first block of each piece, then the end
  int count;

  // The piece of the calling block, the block's index within the piece, and the piece's number of
  // blocks.
  struct Own {
    int piece;
    unsigned block, blocks;
    __device__ Share share() const {
      return {static_cast<std::int64_t>(block) * blockDim.x + threadIdx.x,
              static_cast<std::int64_t>(blocks) * blockDim.x};
    }
  };
  __device__ Own own() const {
    int piece = 0;
    while (piece + 1 < count && blockIdx.x >= first_block[piece + 1]) ++piece;
    return {piece, blockIdx.x - first_block[piece], first_block[piece + 1] - first_block[piece]};
  }
};

}  // namespace stepcast::runtime::cuda
