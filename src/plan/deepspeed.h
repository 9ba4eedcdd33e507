#pragma once

#include <cstdint>
#include <optional>

// DeepSpeed's ZeRO settings: the mapping `data_parallel.deepspeed`, with the names and defaults of
// DeepSpeed's configuration (deepspeed/runtime/zero/config.py @ 1b88ac36). Sizes are numbers of
// elements, as in DeepSpeed.
namespace stepcast::plan {

// The storage of offloaded states.
enum class OffloadDevice : std::uint8_t { kNone, kCpu, kNvme };
const char* Name(OffloadDevice device);  // "none", "cpu", "nvme"

struct DeepSpeed {
  // The number of gradient elements that are reduced together (stages 1 to 3).
  std::int64_t reduce_bucket_size = 500'000'000;
  // At stages 1 and 2: if true, a copy of each bucket is all-reduced, and each rank copies its
  // elements from the copy. If false, each bucket is all-reduced in place. At stage 3: if false,
  // gradients are all-reduced.
  bool reduce_scatter = true;
  // At stages 1 and 2: whether consecutive tensors have different owners.
  bool round_robin_gradients = false;
  // The settings below apply only to stage 3.
  std::int64_t prefetch_bucket_size = 50'000'000;      // most elements to gather ahead
  std::int64_t param_persistence_threshold = 100'000;  // tensors up to this size remain gathered
  // The largest number of gathered elements at which the framework still gathers ahead.
  std::int64_t max_live_parameters = 1'000'000'000;
  // Parameters stay gathered if their next use is within this number of elements.
  std::int64_t max_reuse_distance = 1'000'000'000;
  std::int64_t sub_group_size = 1'000'000'000;  // elements of a rank per optimizer kernel
  // The settings below belong to ZeRO++ (Wang et al. 2023, arXiv 2306.10209).
  std::int64_t hpz_partition_size = 1;  // ranks that share a secondary copy; 1: no secondary copy
  bool quantized_weights = false;
  bool quantized_gradients = false;
  // Settings of ZeRO-Offload and ZeRO-Infinity. offload_optimizer: where the optimizer's states are
  // stored and updated. offload_param: where the parameters are stored (stage 3).
  OffloadDevice offload_optimizer = OffloadDevice::kNone;
  OffloadDevice offload_param = OffloadDevice::kNone;

  bool offloads() const {
    return offload_optimizer != OffloadDevice::kNone || offload_param != OffloadDevice::kNone;
  }

  friend bool operator==(const DeepSpeed&, const DeepSpeed&) = default;
};

// The DeepSpeed settings that the scenario file contains.
struct DeepSpeedRequest {
  std::optional<std::int64_t> reduce_bucket_size, prefetch_bucket_size, param_persistence_threshold,
      max_live_parameters, max_reuse_distance, sub_group_size, hpz_partition_size;
  std::optional<bool> reduce_scatter, round_robin_gradients, quantized_weights, quantized_gradients;
  std::optional<OffloadDevice> offload_optimizer, offload_param;
};

// A setting of DeepSpeed: its key, its members, and the stages at which it has an effect.
template <typename T>
struct DeepSpeedSetting {
  const char* key;
  std::optional<T> DeepSpeedRequest::*given;
  T DeepSpeed::*value;
  int first_stage, last_stage;
  bool HasEffect(int stage) const { return stage >= first_stage && stage <= last_stage; }
};

inline constexpr DeepSpeedSetting<std::int64_t> kDeepSpeedSizes[] = {
    {"reduce_bucket_size", &DeepSpeedRequest::reduce_bucket_size, &DeepSpeed::reduce_bucket_size, 1,
     3},
    {"stage3_prefetch_bucket_size", &DeepSpeedRequest::prefetch_bucket_size,
     &DeepSpeed::prefetch_bucket_size, 3, 3},
    {"stage3_param_persistence_threshold", &DeepSpeedRequest::param_persistence_threshold,
     &DeepSpeed::param_persistence_threshold, 3, 3},
    {"stage3_max_live_parameters", &DeepSpeedRequest::max_live_parameters,
     &DeepSpeed::max_live_parameters, 3, 3},
    {"stage3_max_reuse_distance", &DeepSpeedRequest::max_reuse_distance,
     &DeepSpeed::max_reuse_distance, 3, 3},
    {"sub_group_size", &DeepSpeedRequest::sub_group_size, &DeepSpeed::sub_group_size, 3, 3},
    {"zero_hpz_partition_size", &DeepSpeedRequest::hpz_partition_size,
     &DeepSpeed::hpz_partition_size, 3, 3},
};
inline constexpr DeepSpeedSetting<bool> kDeepSpeedSwitches[] = {
    {"reduce_scatter", &DeepSpeedRequest::reduce_scatter, &DeepSpeed::reduce_scatter, 1, 3},
    {"round_robin_gradients", &DeepSpeedRequest::round_robin_gradients,
     &DeepSpeed::round_robin_gradients, 1, 2},
    {"zero_quantized_weights", &DeepSpeedRequest::quantized_weights, &DeepSpeed::quantized_weights,
     3, 3},
    {"zero_quantized_gradients", &DeepSpeedRequest::quantized_gradients,
     &DeepSpeed::quantized_gradients, 3, 3},
};
inline constexpr DeepSpeedSetting<OffloadDevice> kDeepSpeedOffload[] = {
    {"offload_optimizer", &DeepSpeedRequest::offload_optimizer, &DeepSpeed::offload_optimizer, 1,
     3},
    {"offload_param", &DeepSpeedRequest::offload_param, &DeepSpeed::offload_param, 3, 3},
};

// Returns the request with all defaults.
DeepSpeed Complete(const DeepSpeedRequest& request);

}  // namespace stepcast::plan
