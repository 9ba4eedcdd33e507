#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/time.h"

// Kernels that keep a GPU as busy as the work they stand for.
namespace stepcast::runtime::cuda {

// Fills memory with numbers of the type between -1 and 1, never zero (fp8, e4m3: between -2 and
// 2). Equal seeds give equal numbers. `at` is aligned to 16 bytes.
cudaError_t FillRandom(void* at, Bytes size, DataType type, std::uint64_t seed,
                       cudaStream_t stream);

// A memory-bound kernel: reads and writes so many bytes, whole packs of 16, side by side as
// element-wise kernels do. Reading begins at `from` and goes on from `input` when it comes to the
// end of the arena; writing likewise.
struct Traffic {
  const void* input = nullptr;
  Bytes input_size, from, read;
  void* output = nullptr;
  Bytes output_size, to, written;
};
cudaError_t LaunchTraffic(const Traffic& traffic, cudaStream_t stream);

// The GPU's nanosecond clock, into `slot`.
cudaError_t StampTime(std::uint64_t* slot, cudaStream_t stream);

// One thread waits until `duration` after the kernel's start, or after the time in `since` where
// that is given. The clock that it reads (%globaltimer, PTX ISA) advances in steps that differ from
// GPU to GPU, up to about a microsecond.
cudaError_t Spin(Time duration, const std::uint64_t* since, cudaStream_t stream);

}  // namespace stepcast::runtime::cuda
