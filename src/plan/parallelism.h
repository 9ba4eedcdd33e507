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

// The section `parallelism`: what was said, and what holds. Keys, values and documentation are rows
// of settings.h.
namespace stepcast::plan {

// Ranks along each axis of the grid, and how a pipeline runs.
struct Parallelism {
  std::int64_t data = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  // Ranks that have different experts of a mixture, and ranks that have a part of each. They are
  // ranks of the other axes, folded anew (parallel::Grids).
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  std::int64_t expert_near = 1;  // model::ExpertParallel::near
  // With context parallelism: how a rank's queries see all keys, and with `hierarchical` how many
  // neighbours share out heads.
  model::ContextMethod context_method = model::ContextMethod::kRing;
  std::int64_t context_inner = 1;
  // With tensor parallelism: between the divided regions the tokens are, too.
  bool sequence_parallel = false;
  // Of pipelines: how stages order their passes (ScheduleOf, pipeline.h), how many chunks of the
  // model each has, and how many of the model's blocks each chunk has, in the order of the layers.
  // A schedule that a file lists is `listed`, under the file's name.
  std::string schedule = "sequential";
  std::shared_ptr<const parallel::PipelineSchedule> listed = nullptr;
  bool splits_backward = false;  // it has passes of gradients of inputs alone
  std::int64_t virtual_stages = 1;
  std::int64_t microbatch_group_size_per_vp_stage = 0;  // of interleaved_1f1b; 0: another schedule
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
  // Of a schedule that a file lists, under whose name `schedule` has it.
  std::shared_ptr<const parallel::PipelineSchedule> listed_schedule;
  std::optional<std::int64_t> virtual_stages;
  std::optional<std::int64_t> microbatch_group_size_per_vp_stage;
  std::optional<std::vector<std::int64_t>> stage_layers;
  // Parts that are equal count the embedding, the head (with the loss) as a block each.
  std::optional<bool> account_for_embedding_in_pipeline_split;
  std::optional<bool> account_for_loss_in_pipeline_split;

  // Ranks that hold one replica: the product of the axes other than data. Experts are shared out
  // among ranks of these axes and of data.
  std::int64_t ranks_per_replica() const {
    return tensor.value_or(1) * pipeline.value_or(1) * context.value_or(1);
  }
};

}  // namespace stepcast::plan
