#include "src/lowering/pipeline_stage.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/model/local.h"
#include "src/parallel/schedule_check.h"

namespace stepcast::lowering {

PipelineStage::PipelineStage(const scenario::Scenario& scenario, int stage)
    : whole_(scenario.model.get()),
      stage_(stage),
      stages_(static_cast<int>(scenario.plan.parallelism.pipeline)) {
  if (scenario.plan.parallelism.tensor > 1) {
    local_ = model::Localised(*whole_, scenario.plan.parallelism.tensor);
  }
  const auto micro_batches = static_cast<int>(scenario.plan.training.gradient_accumulation);
  if (stages_ == 1) {
    passes_.reserve(2 * static_cast<std::size_t>(micro_batches));
    for (int m = 0; m < micro_batches; ++m) {
      passes_.push_back({parallel::Task::kForward, m, 0});
      passes_.push_back({parallel::Task::kBackward, m, 0});
    }
    chunks_ = {{.end_layer = static_cast<int>(whole_model().layers.size())}};
    return;
  }
  const std::vector<int> begins =
      model::ChunkLayers(whole_model(), scenario.plan.parallelism.stage_layers);
  const auto virtual_stages = static_cast<int>(scenario.plan.parallelism.virtual_stages);
  const int all = stages_ * virtual_stages;
  std::vector<int> own_layers;
  for (int number = stage; number < all; number += stages_) {
    const auto at = static_cast<std::size_t>(number);
    Chunk chunk{.number = number,
                .first_layer = static_cast<int>(own_layers.size()),
                .first = number == 0,
                .last = number + 1 == all};
    for (int layer = begins[at]; layer < begins[at + 1]; ++layer) own_layers.push_back(layer);
    chunk.end_layer = static_cast<int>(own_layers.size());
    chunks_.push_back(chunk);
  }
  part_ = model::StageOf(whole_model(), own_layers);
  for (std::size_t layer = 0; layer < whole_->layers.size(); ++layer) {
    if (std::binary_search(own_layers.begin(), own_layers.end(), static_cast<int>(layer))) continue;
    for (const int tensor : whole_->layers[layer].tensors) {
      const auto found = std::lower_bound(part_->tensors.begin(), part_->tensors.end(), tensor);
      if (found == part_->tensors.end() || *found != tensor) continue;
      tied_across_.push_back(static_cast<int>(found - part_->tensors.begin()));
    }
  }
  const parallel::NamedSchedule* named = parallel::FindSchedule(scenario.plan.parallelism.schedule);
  STEPCAST_CHECK(named != nullptr, "the plan's schedule is known");
  const parallel::PipelineSchedule schedule =
      named->build({stages_, micro_batches, virtual_stages});
  const auto at = static_cast<std::size_t>(stage);
  std::vector<int> open(chunks_.size(), 0);
  for (const parallel::ScheduleEntry& entry : schedule.stages[at].entries) {
    for (const parallel::Action& action : parallel::ActionsOf(entry)) {
      passes_.push_back(action);
      const std::size_t chunk = chunk_of(action);
      open[chunk] += action.task == parallel::Task::kForward ? 1 : -1;
      chunks_[chunk].in_flight = std::max(chunks_[chunk].in_flight, open[chunk]);
    }
  }
  in_flight_ = parallel::MostInFlight(schedule)[at];
}

}  // namespace stepcast::lowering
