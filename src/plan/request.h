#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/plan/plan.h"

namespace stepcast::parallel {
struct NamedSchedule;
}  // namespace stepcast::parallel

// A plan with only the settings in the scenario. Complete() adds the documented defaults.
// legality.h decides whether the plan is legal.
namespace stepcast::plan {

struct Request : DataParallelRequest, TrainingRequest, ParallelismRequest, MixtureRequest {
  std::optional<Version> torch;
  std::optional<Version> nccl;
  std::optional<bool> expandable_segments;
  std::optional<std::int64_t> cuda_device_max_connections;
  std::optional<Version> driver;
  std::optional<std::int64_t> node_devices;  // GPUs of the smallest node; not set: unknown
  std::optional<int> compute_capability;     // 90 for H100 GPUs; not set: unknown
};

// The requested pipeline schedule, with defaults. Without a pipeline, the model is one stage with
// one chunk.
struct RequestedSchedule {
  std::string name;
  const parallel::NamedSchedule* named = nullptr;  // null: the schedule was read from a file
  std::int64_t virtual_stages = 1;                 // chunks per stage
  bool splits_backward = false;                    // input and weight gradients in separate passes
};
RequestedSchedule ScheduleOf(const Request& request);

// The name of interleaved 1F1B, in which a stage runs a group of micro-batches through each of its
// chunks in turn.
inline constexpr const char* kInterleaved = "interleaved_1f1b";
// Returns the number of micro-batches per group (parallel/pipeline_schedule.h): the requested
// number, or by default the number of stages P. torch.distributed.pipelining divides the M
// micro-batches of a step (`micro_batches`) into max(1, floor(M / P)) groups of equal size.
std::int64_t MicroBatchGroupOf(const Request& request, std::int64_t micro_batches);

// The parts of a model that a pipeline divides among its stages.
struct ModelBlocks {
  std::int64_t count = 1;
  bool has_ends = true;  // the model has an embedding and a head
  // The numbers of weights of the linear layers of one block and of the head. 0: unknown, or blocks
  // differ.
  std::int64_t of_block = 0, of_head = 0;
  bool mixture = false;  // blocks have experts
  // The number of expert groups of a mixture, and the number of groups that the router chooses for
  // a token (model::Experts). 0 if the router does not choose groups.
  std::int64_t expert_groups = 0, groups_per_token = 0;
  // Features that not every attention kernel supports. `attention_sinks`: each head has a sink.
  // `narrow_values`: a head's values and keys differ in size. `attention_chunks`: tokens attend
  // only within their chunk.
  bool attention_sinks = false, narrow_values = false, attention_chunks = false;
  bool distances = false;  // scores have an added trained number that depends on distance
};

// Returns the number of the model's blocks in each of `chunks` chunks: as requested, or equal
// parts. If requested, the embedding and the head are counted as blocks. With fsdp2, the parts are
// the same as in torchtitan, and differ by at most one block. With nanotron, parts have about equal
// numbers of weights. Empty if the blocks cannot be divided.
std::vector<std::int64_t> StageLayersOf(const Request& request, const ModelBlocks& model,
                                        std::int64_t chunks);

// Returns the data-parallel degree: as requested or, without a request, the number of devices
// divided by the degrees of the other axes. Returns no value if the devices cannot be divided, or
// if the number of devices is unknown.
std::optional<std::int64_t> DataDegree(const Request& request, std::optional<std::int64_t> devices);

// Returns the storage type of frozen parameters. The request must contain the precision.
DataType FrozenType(const Request& request);
// Returns the storage type of trained parameters on a rank.
DataType ParameterType(const Request& request);

// Returns whether the forward runs under torch.autocast. If false, the framework casts parameters.
inline bool RunsAutocast(const Request& request) {
  return request.mixed_precision.value_or(MixedPrecision::kFsdp) == MixedPrecision::kAutocast;
}

// The kind of the optimizer's master weights, and the type of its moments.
struct OptimizerStates {
  MasterWeights master_weights = MasterWeights::kFp32;
  DataType type = DataType::kFp32;
};
OptimizerStates OptimizerStatesOf(const Request& request);
// Returns the implementation of the optimizer's update. The request must contain the framework.
OptimizerImplementation OptimizerImplementationOf(const Request& request);

// Returns the plan with all defaults. The request must be legal (legality.h) on a cluster of
// `devices` devices.
Plan Complete(const Request& request, std::int64_t devices, const ModelBlocks& model = {});

// Returns parallelism.expert_tensor, or the framework's default for a mixture.
std::int64_t ExpertTensorOf(const Request& request, bool mixture);

// Returns experts.implementation, or the default of the framework, which must be set.
model::ExpertImplementation ImplementationOf(const Request& request);

// Returns parallelism.context_method, or the framework's default.
model::ContextMethod ContextMethodOf(const Request& request);

}  // namespace stepcast::plan
