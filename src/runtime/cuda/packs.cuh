#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

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

}  // namespace stepcast::runtime::cuda
