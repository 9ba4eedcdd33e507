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
inline constexpr int kPack = 4;  // elements: 16 bytes of FP32

// Enough blocks that every thread has one item, but no more than what a GPU runs at once several
// times over; threads then loop.
inline unsigned BlocksFor(std::int64_t items) {
  constexpr std::int64_t kMostBlocks = 8192;
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((items + kThreads - 1) / kThreads, 1, kMostBlocks));
}

// Whether packs of kPack elements of this size may begin here.
inline bool PacksFit(const void* address, std::int64_t element_size) {
  return reinterpret_cast<std::uintptr_t>(address) % (kPack * element_size) == 0;
}

inline __device__ std::int64_t FirstItem() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
inline __device__ std::int64_t ItemStride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

// A thread's part of an array: every `stride`th item from `first` on.
struct Share {
  std::int64_t first, stride;
};

// `body(count, i)` for the share's packs of kPack elements, which begin at element i, where they
// are `packed`; with a count of one for single elements, and for those that fill no pack.
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

// Several pieces of work for one launch, each for blocks of its own. They are the kernel's argument
// and, as all of those, at most 4 KiB.
template <typename Piece>
struct Pieces {
  static constexpr int kMost = 48;
  Piece at[kMost];
  unsigned first_block[kMost + 1];  // of each, and the end
  int count;

  // The block's own piece, the block's number among those of the piece, and how many these are.
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
