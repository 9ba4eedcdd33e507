#pragma once

#include <cstdint>

#include "src/plan/plan.h"

// Which settings a framework has, and whether they do anything at its ZeRO stage.
namespace stepcast::plan {

enum class DataParallelKey : std::uint8_t {
  kOverlap,
  kBucketSize,
  kFirstBucketSize,
  kPrefetch,
  kReshardAfterForward,
  kAccumulateUnsharded,
  kShardGroupSize,
  kOverlapParamGather,
  kGradientAsBucketView,
  kFindUnusedParameters,
  kUnits,
  kCommHook,
  kPowerSgd,
  kBackwardPrefetch,
  kForwardPrefetch,
  kLimitAllGathers,
  kUseOrigParams,
  kDeepSpeed,
};
inline constexpr DataParallelKey kDataParallelKeys[] = {
    DataParallelKey::kOverlap,
    DataParallelKey::kBucketSize,
    DataParallelKey::kFirstBucketSize,
    DataParallelKey::kPrefetch,
    DataParallelKey::kReshardAfterForward,
    DataParallelKey::kAccumulateUnsharded,
    DataParallelKey::kShardGroupSize,
    DataParallelKey::kOverlapParamGather,
    DataParallelKey::kGradientAsBucketView,
    DataParallelKey::kFindUnusedParameters,
    DataParallelKey::kUnits,
    DataParallelKey::kCommHook,
    DataParallelKey::kPowerSgd,
    DataParallelKey::kBackwardPrefetch,
    DataParallelKey::kForwardPrefetch,
    DataParallelKey::kLimitAllGathers,
    DataParallelKey::kUseOrigParams,
    DataParallelKey::kDeepSpeed,
};
const char* Name(DataParallelKey key);  // "bucket_size"

// The framework has such a setting. `reference` takes every key but frameworks' own mappings.
bool Has(Framework framework, DataParallelKey key);

// The framework has it and it changes something at that stage. `reference` follows the textbook:
// gathering belongs to stage 3, sharded gradients to stages 2 and 3, shards to stages 1 to 3.
bool HasEffect(Framework framework, int zero_stage, DataParallelKey key);

}  // namespace stepcast::plan
