#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/model/context_parallel.h"

namespace stepcast::parallel {
struct PipelineSchedule;
}  // namespace stepcast::parallel

// The section `parallelism`: the request as given, and the complete settings. settings.h has keys,
// values and documentation.
namespace stepcast::plan {

// Ranks along each axis of the grid, and the pipeline's settings.
struct Parallelism {
  std::int64_t data = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  // Ranks that have different experts of a mixture, and ranks that each have a part of every
  // expert. Expert parallelism reuses the ranks of the other axes (parallel::Grids).
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  std::int64_t expert_near = 1;  // model::ExpertParallel::near
  // Context parallelism: how a rank's queries reach all keys and, with `hierarchical`, how many
  // neighboring ranks divide heads.
  model::ContextMethod context_method = model::ContextMethod::kRing;
  std::int64_t context_inner = 1;
  // Tensor parallelism: tokens are divided between the divided regions.
  bool sequence_parallel = false;
  // Pipelines: the order of passes (ScheduleOf, pipeline.h), the number of model chunks per stage,
  // and the number of blocks per chunk, in layer order. A schedule read from a file is `listed`,
  // under the file's name.
  std::string schedule = "sequential";
  std::shared_ptr<const parallel::PipelineSchedule> listed = nullptr;
  bool splits_backward = false;  // the schedule has separate passes for input gradients
  std::int64_t virtual_stages = 1;
  std::int64_t microbatch_group_size_per_vp_stage = 0;  // for interleaved_1f1b; 0: another schedule
  std::vector<std::int64_t> stage_layers = {};
  friend bool operator==(const Parallelism&, const Parallelism&) = default;
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
  // A schedule read from a file; `schedule` has its name.
  std::shared_ptr<const parallel::PipelineSchedule> listed_schedule;
  std::optional<std::int64_t> virtual_stages;
  std::optional<std::int64_t> microbatch_group_size_per_vp_stage;
  std::optional<std::vector<std::int64_t>> stage_layers;
  // Equal parts count the embedding, or the head with the loss, as a block.
  std::optional<bool> account_for_embedding_in_pipeline_split;
  std::optional<bool> account_for_loss_in_pipeline_split;

  // Ranks that hold one replica: the product of all axes but data. Ranks of these axes and of data
  // divide the experts.
  std::int64_t ranks_per_replica() const {
    return tensor.value_or(1) * pipeline.value_or(1) * context.value_or(1);
  }
};

}  // namespace stepcast::plan
