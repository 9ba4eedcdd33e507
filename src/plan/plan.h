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

// How the model is trained: the scenario's `training`, `parallelism`, `data_parallel` and
// `software` sections, every default filled in. Keys and defaults: docs/formats.md.
namespace stepcast::plan {

// The newest versions whose rules are known.
inline constexpr Version kNewestTorch{2, 14}, kNewestNccl{2, 30}, kNewestDriver{580, 0};

struct Software {
  Version torch = kNewestTorch;
  Version nccl = kNewestNccl;
  Version driver = kNewestDriver;  // NVIDIA's: 570.86 is {570, 86}
  // PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (engine/caching_allocator.h).
  bool expandable_segments = false;
  // CUDA_DEVICE_MAX_CONNECTIONS, queues of a device; 1 where Megatron-LM sets it, else CUDA's 8.
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

// The type in which kernels read parameters and write gradients: 16 bits beside products in 8 and
// 4, 32 beside those that round to TF32.
constexpr DataType ComputeType(DataType precision) {
  if (precision == DataType::kTf32) return DataType::kFp32;
  return IsQuantized(precision) ? DataType::kBf16 : precision;
}

// Ranks that add up their gradients (parallel::kGradients), and those among which one copy of the
// states is sharded (parallel::kStates).
std::int64_t GradientRanks(const Plan& plan);
std::int64_t ShardRanks(const Plan& plan);

// Whether the optimizer keeps master weights, whole or as remainders: never beside FP32 parameters.
bool KeepsMasterWeights(const Training& training);
// The type of the values that the optimizer changes: FP32 master weights, else the parameters.
DataType UpdatedType(const Training& training);

// Bytes that master weights take for a parameter; 0: there are none.
std::int64_t MasterBytesPerParameter(const Training& training);

// Of optimizers that have equal moments (HasEqualMoments).
//
// Bytes of persistent optimizer state per parameter: AdamW's two moments (SGD: one momentum), and
// the master weights. AdamW on bf16 parameters: k = 12 with FP32 states and master weights (ZeRO,
// Rajbhandari et al. 2020, arXiv 1910.02054, section 3.1), 4 with PyTorch's own optimizer, 6 with
// bf16 moments and remainders.
std::int64_t OptimizerBytesPerParameter(const Training& training);
// The same of any optimizer, as few as it can be: less than what one of unequal moments keeps.
std::int64_t LeastOptimizerBytesPerParameter(const Training& training);

// The same as arrays of one type, a number a parameter in each: master weights first, then the
// moments. Where they have not one type, as many arrays of 16 bits as take up the same memory.
struct OptimizerArrays {
  std::int64_t count = 0;
  DataType type = DataType::kFp32;
};
OptimizerArrays OptimizerArraysOf(const Training& training);
// Whether all states are of the type of what is updated, so that an execution can update them.
bool HasStatesOfUpdatedType(const Training& training);

// Megatron-LM's precision-aware optimizer, whose states may have 16 bits: it reads main gradients
// of 16 bits as they are (megatron/core/optimizer/optimizer_config.py).
bool IsPrecisionAware(const Training& training);

// Whose code the model's layers are. DeepSpeed has none: where ranks divide layers or have stages
// of them under it, they are Megatron-LM's (Megatron-DeepSpeed).
Framework LayersOf(const Plan& plan);

// One micro-batch on one rank, as the model's work is asked for.
model::WorkOptions WorkOptionsOf(const Plan& plan);

// The type in which backward writes gradients: the parameters', or gradient_dtype where that is
// smaller.
DataType WrittenGradientType(const Training& training);

// True when gradients accumulate in a larger type than backward writes: the accumulators then stand
// beside the gradients ("FP32 gradient accumulation": 4 more bytes per parameter).
bool AccumulatesApart(const Training& training);

}  // namespace stepcast::plan
