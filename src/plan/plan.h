#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/version.h"
#include "src/model/layer_work.h"
#include "src/plan/data_parallel.h"
#include "src/plan/mixture.h"
#include "src/plan/parallelism.h"
#include "src/plan/training.h"

// How the model is trained: the sections `training`, `parallelism`, `experts`, `data_parallel` and
// `software` of a scenario, with all defaults. docs/formats.md documents keys and defaults.
namespace stepcast::plan {

// The newest modeled versions of software.
inline constexpr Version kNewestTorch{2, 14}, kNewestNccl{2, 30}, kNewestDriver{580, 0};

struct Software {
  Version torch = kNewestTorch;
  Version nccl = kNewestNccl;
  Version driver = kNewestDriver;  // NVIDIA's driver: 570.86 is {570, 86}
  // Whether PYTORCH_CUDA_ALLOC_CONF is expandable_segments:True (memory/caching_allocator.h).
  bool expandable_segments = false;
  // The number of the device's hardware queues (CUDA_DEVICE_MAX_CONNECTIONS): 1 with Megatron-LM,
  // otherwise CUDA's default of 8.
  std::int64_t cuda_device_max_connections = 8;
  friend bool operator==(const Software&, const Software&) = default;
};

struct Plan {
  Training training;
  Parallelism parallelism;
  Mixture mixture;
  DataParallel data_parallel;
  Software software;
  friend bool operator==(const Plan&, const Plan&) = default;
};

// Returns the type in which kernels read parameters and write gradients. The type is BF16 if GEMMs
// are in 8 or 4 bits, and FP32 if GEMMs are in TF32.
constexpr DataType ComputeType(DataType precision) {
  if (precision == DataType::kTf32) return DataType::kFp32;
  return IsQuantized(precision) ? DataType::kBf16 : precision;
}

// GradientRanks returns the number of ranks that sum their gradients (parallel::kGradients).
// ShardRanks returns the number of ranks that shard one copy of the states (parallel::kStates).
std::int64_t GradientRanks(const Plan& plan);
std::int64_t ShardRanks(const Plan& plan);

// Returns whether the optimizer keeps master weights, as FP32 values or as remainders. False for
// FP32 parameters.
bool KeepsMasterWeights(const Training& training);
// Returns the type of the values that the optimizer updates: FP32 if there are master weights,
// otherwise the type of parameters.
DataType UpdatedType(const Training& training);

// Returns the bytes of master weights per parameter. 0: no master weights.
std::int64_t MasterBytesPerParameter(const Training& training);

// Returns the bytes of persistent optimizer state per parameter: the moments (two for AdamW, one
// for SGD) and the master weights. Only for optimizers with equal moments (HasEqualMoments).
//
// For AdamW on bf16 parameters, the result is 12 with FP32 states and master weights (k of ZeRO,
// Rajbhandari et al. 2020, arXiv 1910.02054, section 3.1). The result is 4 with PyTorch's own
// optimizer, and 6 with bf16 moments and remainders.
std::int64_t OptimizerBytesPerParameter(const Training& training);
// Returns a lower bound of the bytes of optimizer state per parameter, for any optimizer.
std::int64_t LeastOptimizerBytesPerParameter(const Training& training);

// The persistent optimizer state as arrays of one type with one number per parameter: master
// weights first, then moments. If the types differ, 16-bit arrays of the same total size represent
// all states.
struct OptimizerArrays {
  std::int64_t count = 0;
  DataType type = DataType::kFp32;
};
OptimizerArrays OptimizerArraysOf(const Training& training);
// Returns whether all optimizer states have the type of the updated values, as execution requires.
bool HasStatesOfUpdatedType(const Training& training);

// Returns whether the optimizer is Megatron-LM's precision-aware optimizer, which supports 16-bit
// states and reads 16-bit main gradients directly (megatron/core/optimizer/optimizer_config.py).
bool IsPrecisionAware(const Training& training);

// Returns the framework whose layers the model uses. With DeepSpeed, divided or pipelined layers
// are Megatron-LM's (Megatron-DeepSpeed).
Framework LayersOf(const Plan& plan);

// Returns the options that determine the model's work for one micro-batch on one rank.
model::WorkOptions WorkOptionsOf(const Plan& plan);

// Returns the type in which backward writes gradients: the smaller of gradient_dtype and the type
// of parameters.
DataType WrittenGradientType(const Training& training);

// Returns whether gradients accumulate in a larger type than the type in which backward writes
// them. Accumulators then use memory in addition to the gradients ("FP32 gradient accumulation": 4
// bytes per parameter).
bool AccumulatesApart(const Training& training);

}  // namespace stepcast::plan
