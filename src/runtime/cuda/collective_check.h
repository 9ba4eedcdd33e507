#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <vector>

#include "src/base/data_type.h"
#include "src/program/program.h"
#include "src/runtime/cuda/communicators.h"
#include "src/runtime/device.h"

// Whether collectives do what they should, on numbers whose sums are known.
namespace stepcast::runtime::cuda {

// Runs a collective like this one on a few thousand numbers and waits for it. All ranks of its
// group call this together. A wrong number is a Failure that names the collective. fp8 passes
// unchecked.
Attempt<void> CheckCollective(const program::Program& program,
                              const program::Collective& collective, int rank,
                              Communicators& communicators, cudaStream_t stream);

// The expected values: the numbers that group rank `member` gives, and those that it gets.
std::vector<float> CheckedSource(const program::Collective& collective, int member, int ranks);
std::vector<float> CheckedTarget(const program::Collective& collective, int member, int ranks);

// Values of a storage type as FP32, and back, rounded.
std::vector<float> Widened(std::span<const std::byte> bytes, DataType type);
std::vector<std::byte> Narrowed(std::span<const float> values, DataType type);

}  // namespace stepcast::runtime::cuda
