#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

// PTX instructions for kernels. CUDA C++ has no functions for these instructions. In tests on the
// CPU, without nvcc, tests/emulated_gpu defines these instructions.
#ifndef __CUDACC__
#include <emulated_instructions.h>
#else
namespace stepcast::runtime::cuda {

// Returns the block's dynamic shared memory.
__device__ inline unsigned char* DynamicShared() {
  extern __shared__ __align__(128) unsigned char shared[];
  return shared;
}

// Returns the GPU's clock in nanoseconds, which all multiprocessors share.
__device__ inline std::uint64_t GlobalTimer() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// The warp instructions of a fused attention kernel (PTX ISA, "Warp-level matrix instructions";
// compute capability 8.0 and later). In the descriptions of fragments, g = l / 4 and t = l % 4 for
// lane l.

// c += a b for a [16, 16], b [16, 8] and c [16, 8]:
//   a[0], a[2]  row g, columns 2 t and 2 t + 1, columns 2 t + 8 and 2 t + 9
//   a[1], a[3]  row g + 8, the same columns as a[0], a[2]
//   b[0], b[1]  column g, rows 2 t and 2 t + 1, rows 2 t + 8 and 2 t + 9
//   c[0..1]     row g, columns 2 t and 2 t + 1;  c[2..3]  row g + 8
template <typename T>
__device__ inline void MultiplyAdd(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                   std::uint32_t b1);

template <>
__device__ inline void MultiplyAdd<__nv_bfloat16>(float (&c)[4], const std::uint32_t (&a)[4],
                                                  std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ inline void MultiplyAdd<__half>(float (&c)[4], const std::uint32_t (&a)[4],
                                           std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads four 8 x 8 matrices of 16-bit numbers from shared memory. Lanes 8 i to 8 i + 7 pass the
// addresses of the rows of matrix i. Every lane receives row g, columns 2 t and 2 t + 1 of each
// matrix. If kTransposed is true, every lane receives column g, rows 2 t and 2 t + 1.
template <bool kTransposed>
__device__ inline void LoadMatrices(std::uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
}

// Starts an asynchronous copy of 16 bytes into shared memory. Writes zeros if `present` is false.
__device__ inline void CopyAsync(void* shared, const void* global, bool present) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
               "r"(present ? 16 : 0)
               : "memory");
}
__device__ inline void EndCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most the latest kPending groups of copies are in flight.
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace stepcast::runtime::cuda
#endif

namespace stepcast::runtime::cuda {

__device__ inline std::uint32_t PackPair(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
__device__ inline std::uint32_t PackPair(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

}  // namespace stepcast::runtime::cuda
