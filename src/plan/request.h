#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/plan/plan.h"

// A plan as the scenario states it: only the given settings. Complete() fills in the rest by the
// documented defaults; whether it can exist is legality.h.
namespace stepcast::plan {

struct Request : DataParallelRequest {
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
  std::optional<model::Implementation> activation_function;
  std::optional<bool> repeat_kv;
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
  std::optional<bool> sequence_parallel;
  std::optional<std::string> schedule;
  std::optional<std::int64_t> virtual_stages;
  std::optional<std::vector<std::int64_t>> stage_layers;

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
// `devices`, for a model of so many blocks.
Plan Complete(const Request& request, std::int64_t devices, std::int64_t blocks = 1);

}  // namespace stepcast::plan
