#pragma once

// Emulates the PTX of src/runtime/cuda/instructions.cuh, after the PTX ISA.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>

#include "tests/emulated_gpu/block.h"

namespace stepcast::runtime::cuda {

inline unsigned char* DynamicShared() { return emulated::DynamicShared(); }
inline std::uint64_t GlobalTimer() { return static_cast<std::uint64_t>(emulated::Clock()); }
inline void CopyAsync(void* shared, const void* global, bool present) {
  emulated::CopyLater(shared, global, present);
}
inline void EndCopies() { emulated::EndGroupOfCopies(); }
template <int kPending>
void WaitForCopies() {
  emulated::FinishCopies(kPending);
}

// Number `which` (0 the low one) of a pair.
template <typename T>
float OfPair(std::uint32_t pair, int which) {
  return values::ToFp32(T{static_cast<std::uint16_t>(pair >> 16 * which)});
}

// mma.m16n8k16: a row's numbers in a and c are in the four lanes from 4 (row % 8) on; a column's
// numbers in b are in those from 4 column on.
template <typename T>
void MultiplyAdd(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  struct Fragments {
    std::uint32_t a[4], b[2];
  } const own = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const auto* warp = static_cast<const unsigned char*>(emulated::ShareInWarp(&own, sizeof own));
  const auto of = [&](int lane) {
    Fragments fragments;
    std::memcpy(&fragments, warp + lane * emulated::kSlot, sizeof fragments);
    return fragments;
  };
  const int group = emulated::Lane() / 4;
  const int place = emulated::Lane() % 4;
  for (int k = 0; k < 16; k += 2) {
    const Fragments rows = of(4 * group + k % 8 / 2);
    for (int column = 0; column < 2; ++column) {
      const Fragments columns = of(4 * (2 * place + column) + k % 8 / 2);
      for (int half = 0; half < 2; ++half) {  // rows `group` and `group` + 8
        for (int which = 0; which < 2; ++which) {
          c[2 * half + column] +=
              OfPair<T>(rows.a[k / 8 * 2 + half], which) * OfPair<T>(columns.b[k / 8], which);
        }
      }
    }
  }
}

template <bool kTransposed>
void LoadMatrices(std::uint32_t (&to)[4], const void* row) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) std::abort();
  const auto* warp = static_cast<const unsigned char*>(emulated::ShareInWarp(&row, sizeof row));
  const int group = emulated::Lane() / 4;
  const int place = emulated::Lane() % 4;
  for (int matrix = 0; matrix < 4; ++matrix) {
    const auto at = [&](int r, int column) {
      const std::uint16_t* numbers;
      std::memcpy(&numbers, warp + (8 * matrix + r) * emulated::kSlot, sizeof numbers);
      return std::uint32_t{numbers[column]};
    };
    to[matrix] = kTransposed ? at(2 * place, group) | at(2 * place + 1, group) << 16
                             : at(group, 2 * place) | at(group, 2 * place + 1) << 16;
  }
}

}  // namespace stepcast::runtime::cuda
