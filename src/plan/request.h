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

// A plan as the scenario states it: only the given settings. Complete() fills in the rest by the
// documented defaults; whether it can exist is legality.h.
namespace stepcast::plan {

struct Request : DataParallelRequest, TrainingRequest, ParallelismRequest, MixtureRequest {
  std::optional<Version> torch;
  std::optional<Version> nccl;
  std::optional<bool> expandable_segments;
  std::optional<std::int64_t> cuda_device_max_connections;
  std::optional<Version> driver;
  std::optional<std::int64_t> node_devices;  // of the cluster's smallest node; none: not known
  std::optional<int> compute_capability;  // of the cluster's GPUs, 90 for an H100; none: not known
};

// What a request says of its pipeline's schedule, with defaults. Without a pipeline every stage is
// the whole model: one chunk.
struct RequestedSchedule {
  std::string name;
  const parallel::NamedSchedule* named = nullptr;  // nullptr: a file lists it
  std::int64_t virtual_stages = 1;                 // chunks a stage
  bool splits_backward = false;                    // into gradients of inputs and of weights
};
RequestedSchedule ScheduleOf(const Request& request);

// The schedule whose stages run micro-batches in groups, chunk by chunk.
inline constexpr const char* kInterleaved = "interleaved_1f1b";
// How many a group of it has (parallel/pipeline_schedule.h) in a step of so many: what the request
// says, else as many as there are stages; torch.distributed.pipelining, as few more as make
// max(1, floor(M / P)) equal groups.
std::int64_t MicroBatchGroupOf(const Request& request, std::int64_t micro_batches);

// What a pipeline's stages share out.
struct ModelBlocks {
  std::int64_t count = 1;
  bool has_ends = true;  // there are an embedding and a head
  // Weights in matrix products, where all blocks have as many; 0: not known.
  std::int64_t of_block = 0, of_head = 0;
  bool mixture = false;  // blocks have experts
  // Of a mixture whose router chooses groups of experts first (model::Experts); 0: it does not.
  std::int64_t expert_groups = 0, groups_per_token = 0;
  // What not every attention kernel can do: sinks; values of another size than keys; chunks.
  bool attention_sinks = false, narrow_values = false, attention_chunks = false;
};

// How many of the model's blocks each of so many chunks has: as requested, or equal parts, in which
// the embedding and the head count as a block each if the request says so. With fsdp2 parts as
// torchtitan makes them, which differ by one; with nanotron parts of about as many weights. Empty:
// they do not divide.
std::vector<std::int64_t> StageLayersOf(const Request& request, const ModelBlocks& model,
                                        std::int64_t chunks);

// The data-parallel degree: as requested, else the devices over the other axes. Nothing when they
// do not divide, or neither is known.
std::optional<std::int64_t> DataDegree(const Request& request, std::optional<std::int64_t> devices);

// What frozen parameters are kept in, where the precision is known.
DataType FrozenType(const Request& request);
// What a rank keeps trained parameters in.
DataType ParameterType(const Request& request);

// The model's forward runs under torch.autocast, though the framework has casts of its own.
inline bool RunsAutocast(const Request& request) {
  return request.mixed_precision.value_or(MixedPrecision::kFsdp) == MixedPrecision::kAutocast;
}

// What the request's optimizer keeps beside parameters, and what its moments are kept in.
struct OptimizerStates {
  MasterWeights master_weights = MasterWeights::kFp32;
  DataType type = DataType::kFp32;
};
OptimizerStates OptimizerStatesOf(const Request& request);
// How its update runs. The framework must be known.
OptimizerImplementation OptimizerImplementationOf(const Request& request);

// The plan with every default filled in. The request must be legal (legality.h) on a cluster of
// `devices`.
Plan Complete(const Request& request, std::int64_t devices, const ModelBlocks& model = {});

// parallelism.expert_tensor, or the framework's own for a mixture.
std::int64_t ExpertTensorOf(const Request& request, bool mixture);

// experts.implementation, or the framework's own; of a request that says its framework.
model::ExpertImplementation ImplementationOf(const Request& request);

// parallelism.context_method, or the framework's own.
model::ContextMethod ContextMethodOf(const Request& request);

}  // namespace stepcast::plan
