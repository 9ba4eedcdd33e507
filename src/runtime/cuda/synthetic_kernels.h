#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/time.h"

// Synthetic kernels, which use a GPU's resources as much as the real work that they represent.
namespace stepcast::runtime::cuda {

// Fills memory with numbers of type `type` between -1 and 1, never zero (fp8 e4m3: between -2 and
// 2). Equal seeds produce equal numbers. `at` must be aligned to 16 bytes.
cudaError_t FillRandom(void* at, Bytes size, DataType type, std::uint64_t seed,
                       cudaStream_t stream);

// A memory-bound kernel that reads and writes the given numbers of bytes. The kernel has coalesced
// accesses of 16 bytes, like element-wise kernels. Reading begins at offset `from` of `input`, and
// wraps around to the start of `input` at the end of the arena. The kernel writes in the same way.
struct Traffic {
  const void* input = nullptr;
  Bytes input_size, from, read;
  void* output = nullptr;
  Bytes output_size, to, written;
};
cudaError_t LaunchTraffic(const Traffic& traffic, cudaStream_t stream);

// Stores the time of the GPU's nanosecond clock in `slot`.
cudaError_t StampTime(std::uint64_t* slot, cudaStream_t stream);

// Launches a kernel with one thread that waits for `duration`. The wait begins at the kernel's
// start or, if `since` is not null, at the time that is stored at this address. The kernel reads
// %globaltimer (PTX ISA), whose resolution differs by GPU, up to about a microsecond.
cudaError_t Spin(Time duration, const std::uint64_t* since, cudaStream_t stream);

}  // namespace stepcast::runtime::cuda
