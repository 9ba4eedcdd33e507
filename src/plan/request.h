#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/plan/plan.h"

// A plan as somebody states it: only what was said. Complete() fills in the rest by the documented
// defaults; whether it can exist is legality.h.
namespace stepcast::plan {

// `bucket_size: unit`: the gradients of each unit together (reference, stage 3).
struct PerUnit {};

struct Request {
  std::optional<std::int64_t> sequence_length;
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> gradient_accumulation;
  std::optional<std::int64_t> global_batch_size;
  std::optional<DataType> precision;
  std::optional<DataType> parameter_dtype;
  std::optional<DataType> gradient_dtype;
  std::optional<DataType> reduce_dtype;
  std::optional<Optimizer> optimizer;
  std::optional<OptimizerImplementation> optimizer_implementation;
  std::optional<model::Checkpointing> activation_checkpointing;
  std::optional<model::Share> checkpointed_blocks;
  std::optional<bool> activation_offload;
  std::optional<model::Attention> attention;
  std::optional<bool> checkpoint_early_stop;
  std::optional<bool> compile;
  std::optional<model::Loss> loss;
  std::optional<HostWaits> host_waits;
  std::optional<model::Implementation> norm;
  std::optional<model::Implementation> rotary;
  std::optional<bool> step_barrier;
  std::optional<double> gradient_clipping;
  std::optional<DataLoading> data_loading;
  std::optional<CheckpointSaving> checkpoint_saving;
  std::optional<Dispatch> dispatch;

  std::optional<std::int64_t> data;
  std::optional<std::int64_t> tensor;
  std::optional<std::int64_t> pipeline;
  std::optional<std::int64_t> context;
  std::optional<std::int64_t> expert;

  std::optional<int> zero_stage;
  std::optional<Framework> framework;
  std::optional<bool> overlap;
  std::optional<std::variant<Bytes, PerUnit>> bucket_size;
  std::optional<Bytes> first_bucket_size;
  std::optional<std::int64_t> prefetch;
  std::optional<ReshardAfterForward> reshard_after_forward;
  std::optional<bool> accumulate_unsharded;
  std::optional<std::int64_t> shard_group_size;
  std::optional<bool> overlap_param_gather;
  std::optional<bool> gradient_as_bucket_view;
  std::optional<bool> find_unused_parameters;
  std::optional<WrappedUnits> units;
  std::optional<CommHook> comm_hook;
  std::optional<PowerSgdRequest> powersgd;
  std::optional<BackwardPrefetch> backward_prefetch;
  std::optional<bool> forward_prefetch;
  std::optional<bool> limit_all_gathers;
  std::optional<bool> use_orig_params;
  std::optional<DeepSpeedRequest> deepspeed;

  std::optional<Version> torch;
  std::optional<Version> nccl;
  std::optional<bool> expandable_segments;
  std::optional<Version> driver;

  // Ranks that hold one replica: the product of the axes other than data.
  std::int64_t ranks_per_replica() const {
    return tensor.value_or(1) * pipeline.value_or(1) * context.value_or(1) * expert.value_or(1);
  }
};

// The data-parallel degree: as requested, else the devices over the other axes. Nothing when they
// do not divide, or neither is known.
std::optional<std::int64_t> DataDegree(const Request& request, std::optional<std::int64_t> devices);

// The plan with every default filled in. The request must be legal (legality.h) on a cluster of
// `devices`.
Plan Complete(const Request& request, std::int64_t devices);

}  // namespace stepcast::plan
