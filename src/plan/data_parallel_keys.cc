#include "src/plan/data_parallel_keys.h"

namespace stepcast::plan {

const char* Name(DataParallelKey key) {
  switch (key) {
    case DataParallelKey::kOverlap:
      return "overlap";
    case DataParallelKey::kBucketSize:
      return "bucket_size";
    case DataParallelKey::kFirstBucketSize:
      return "first_bucket_size";
    case DataParallelKey::kPrefetch:
      return "prefetch";
    case DataParallelKey::kReshardAfterForward:
      return "reshard_after_forward";
    case DataParallelKey::kAccumulateUnsharded:
      return "accumulate_unsharded";
    case DataParallelKey::kShardGroupSize:
      return "shard_group_size";
    case DataParallelKey::kOverlapParamGather:
      return "overlap_param_gather";
    case DataParallelKey::kGradientAsBucketView:
      return "gradient_as_bucket_view";
    case DataParallelKey::kFindUnusedParameters:
      return "find_unused_parameters";
    case DataParallelKey::kBackwardPrefetch:
      return "backward_prefetch";
    case DataParallelKey::kForwardPrefetch:
      return "forward_prefetch";
    case DataParallelKey::kLimitAllGathers:
      return "limit_all_gathers";
    case DataParallelKey::kUseOrigParams:
      return "use_orig_params";
    case DataParallelKey::kDeepSpeed:
      return "deepspeed";
  }
  return "";
}

bool Has(Framework framework, DataParallelKey key) {
  switch (framework) {
    case Framework::kReference:
      return key != DataParallelKey::kDeepSpeed;
    case Framework::kDdp:
      return key == DataParallelKey::kBucketSize || key == DataParallelKey::kFirstBucketSize ||
             key == DataParallelKey::kGradientAsBucketView ||
             key == DataParallelKey::kFindUnusedParameters;
    case Framework::kFsdp2:
      return key == DataParallelKey::kPrefetch || key == DataParallelKey::kReshardAfterForward ||
             key == DataParallelKey::kAccumulateUnsharded ||
             key == DataParallelKey::kShardGroupSize;
    case Framework::kMegatron:
      return key == DataParallelKey::kOverlap || key == DataParallelKey::kBucketSize ||
             key == DataParallelKey::kShardGroupSize || key == DataParallelKey::kOverlapParamGather;
    case Framework::kFsdp1:
      return key == DataParallelKey::kAccumulateUnsharded ||
             key == DataParallelKey::kShardGroupSize || key == DataParallelKey::kBackwardPrefetch ||
             key == DataParallelKey::kForwardPrefetch || key == DataParallelKey::kLimitAllGathers ||
             key == DataParallelKey::kUseOrigParams;
    case Framework::kDeepSpeed:
      return key == DataParallelKey::kOverlap || key == DataParallelKey::kDeepSpeed;
    case Framework::kInternEvo:
      return key == DataParallelKey::kOverlap || key == DataParallelKey::kBucketSize ||
             key == DataParallelKey::kShardGroupSize;
  }
  return false;
}

bool HasEffect(Framework framework, int zero_stage, DataParallelKey key) {
  if (!Has(framework, key)) return false;
  if (framework == Framework::kMegatron) {
    const bool of_shards =
        key == DataParallelKey::kShardGroupSize || key == DataParallelKey::kOverlapParamGather;
    return !of_shards || zero_stage == 1;
  }
  if (framework == Framework::kDeepSpeed && key == DataParallelKey::kOverlap) {
    return zero_stage >= 1;
  }
  if (framework != Framework::kReference) return true;
  switch (key) {
    case DataParallelKey::kOverlap:
    case DataParallelKey::kBucketSize:
    case DataParallelKey::kFirstBucketSize:
      return true;
    case DataParallelKey::kPrefetch:
    case DataParallelKey::kReshardAfterForward:
      return zero_stage == 3;
    case DataParallelKey::kAccumulateUnsharded:
      return zero_stage >= 2;
    case DataParallelKey::kShardGroupSize:
      return zero_stage >= 1;
    case DataParallelKey::kOverlapParamGather:
    case DataParallelKey::kGradientAsBucketView:
    case DataParallelKey::kFindUnusedParameters:
    case DataParallelKey::kBackwardPrefetch:
    case DataParallelKey::kForwardPrefetch:
    case DataParallelKey::kLimitAllGathers:
    case DataParallelKey::kUseOrigParams:
    case DataParallelKey::kDeepSpeed:
      return false;  // ways of one framework; the textbook has none
  }
  return false;
}

}  // namespace stepcast::plan
