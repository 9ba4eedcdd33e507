#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/model/context_parallel.h"

namespace stepcast::parallel {
struct PipelineSchedule;
}  // namespace stepcast::parallel

// The section `parallelism` of a scenario: the settings as written, and the settings with defaults.
// settings.h lists keys, values and documentation.
namespace stepcast::plan {

// The number of ranks along each axis of the grid, and the settings of the pipeline.
struct Parallelism {
  std::int64_t data = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  // `expert`: ranks with different experts. `expert_tensor`: ranks that each have a part of every
  // expert. Expert parallelism reuses the ranks of the other axes (parallel::Grids).
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  std::int64_t expert_near = 1;  // model::ExpertParallel::near
  // How a rank's queries reach all keys in context parallelism and, with `hierarchical`, the number
  // of neighboring ranks among which the heads are divided.
  model::ContextMethod context_method = model::ContextMethod::kRing;
  std::int64_t context_inner = 1;
  // Whether the tokens are divided among the tensor-parallel ranks, outside the layers that tensor
  // parallelism divides.
  bool sequence_parallel = false;
  // The pipeline: the order of passes (ScheduleOf, pipeline.h), the number of chunks per stage, and
  // the number of blocks per chunk, in layer order. For a schedule from a file, `schedule` is the
  // file's name and `listed` its content.
  std::string schedule = "";  // empty: no pipeline
  std::shared_ptr<const parallel::PipelineSchedule> listed = nullptr;
  bool splits_backward = false;  // the schedule separates input gradients from weight gradients
  std::int64_t virtual_stages = 1;
  std::int64_t microbatch_group_size_per_vp_stage = 0;  // only interleaved_1f1b; otherwise 0
  std::vector<std::int64_t> stage_layers = {};
  // Whether embedding and head are counted as blocks when layers are divided into equal parts. In a
  // complete plan, `stage_layers` contains the result, and both members are false.
  bool account_for_embedding_in_pipeline_split = false;
  bool account_for_loss_in_pipeline_split = false;

  std::int64_t ranks_per_replica() const { return tensor * pipeline * context; }
  std::int64_t ranks() const { return data * ranks_per_replica(); }
  friend auto operator<=>(const Parallelism&, const Parallelism&) = default;
};

struct ParallelismRequest {
  std::optional<std::int64_t> data;
  std::optional<std::int64_t> tensor;
  std::optional<std::int64_t> pipeline;
  std::optional<std::int64_t> context;
  std::optional<std::int64_t> expert;
  std::optional<std::int64_t> expert_tensor;
  std::optional<model::ContextMethod> context_method;
  std::optional<std::int64_t> context_inner;
  std::optional<bool> sequence_parallel;
  std::optional<std::string> schedule;
  // A schedule that was read from the file `schedule`. Null: the schedule is built in.
  std::shared_ptr<const parallel::PipelineSchedule> listed_schedule;
  std::optional<std::int64_t> virtual_stages;
  std::optional<std::int64_t> microbatch_group_size_per_vp_stage;
  std::optional<std::vector<std::int64_t>> stage_layers;
  std::optional<bool> account_for_embedding_in_pipeline_split;
  std::optional<bool> account_for_loss_in_pipeline_split;

  // Returns the number of ranks of one replica: the product of the degrees of all axes except data.
  // Data-parallel ranks may also divide experts.
  std::int64_t ranks_per_replica() const {
    return tensor.value_or(1) * pipeline.value_or(1) * context.value_or(1);
  }
};

}  // namespace stepcast::plan
