#include "src/lowering/pipeline_stage.h"

#include <algorithm>
#include <variant>

#include "src/base/check.h"
#include "src/model/stage.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

PipelineStage::PipelineStage(const scenario::Scenario& scenario,
                             const parallel::PipelineSchedule& schedule, int stage)
    : whole_(scenario.model.get()),
      stage_(stage),
      stages_(static_cast<int>(scenario.plan.parallelism.pipeline)) {
  const plan::Parallelism& axes = scenario.plan.parallelism;
  if (axes.tensor > 1 || axes.expert > 1 || axes.expert_tensor > 1) {
    local_ = model::Localised(*whole_, plan::GridsOf(scenario.plan));
  }
  TakePasses(schedule.stages[static_cast<std::size_t>(stage)]);
  if (stages_ == 1) {
    chunks_ = {{.end_layer = static_cast<int>(whole_model().layers.size())}};
  } else {
    CutModel(scenario, schedule);
  }
}

void PipelineStage::CutModel(const scenario::Scenario& scenario,
                             const parallel::PipelineSchedule& schedule) {
  const std::vector<int> begins =
      model::ChunkLayers(whole_model(), scenario.plan.parallelism.stage_layers);
  const auto at = static_cast<std::size_t>(stage_);
  const int all = parallel::Chunks(schedule);
  std::vector<int> home(static_cast<std::size_t>(all));  // stage of each chunk
  for (int s = 0; s < stages_; ++s) {
    for (const int number : schedule.stages[static_cast<std::size_t>(s)].chunks) {
      home[static_cast<std::size_t>(number)] = s;
    }
  }
  std::vector<int> numbers = schedule.stages[at].chunks;
  std::sort(numbers.begin(), numbers.end());
  std::vector<int> own_layers;
  for (const int number : numbers) {
    const auto n = static_cast<std::size_t>(number);
    Chunk chunk{.number = number,
                .first_layer = static_cast<int>(own_layers.size()),
                .first = number == 0,
                .last = number + 1 == all};
    if (number > 0) chunk.before = home[n - 1];
    if (number + 1 < all) chunk.behind = home[n + 1];
    for (int layer = begins[n]; layer < begins[n + 1]; ++layer) own_layers.push_back(layer);
    chunk.end_layer = static_cast<int>(own_layers.size());
    chunks_.push_back(chunk);
  }
  part_ = model::StageOf(whole_model(), own_layers);
  for (int number = 0; number < all; ++number) {
    const auto n = static_cast<std::size_t>(number);
    if (home[n] == stage_) continue;
    for (int layer = begins[n]; layer < begins[n + 1]; ++layer) {
      for (const int tensor : whole_model().layers[static_cast<std::size_t>(layer)].tensors) {
        const auto found = std::lower_bound(part_->tensors.begin(), part_->tensors.end(), tensor);
        if (found == part_->tensors.end() || *found != tensor) continue;
        tied_across_.push_back(static_cast<int>(found - part_->tensors.begin()));
        tied_stages_.push_back(home[n]);
      }
    }
  }
  if (!tied_stages_.empty()) tied_stages_.push_back(stage_);
  for (std::vector<int>* list : {&tied_across_, &tied_stages_}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
}

void PipelineStage::TakePasses(const parallel::PipelineSchedule::Stage& of_stage) {
  parameter_passes_.emplace_back();
  for (const parallel::ScheduleEntry& entry : of_stage.entries) {
    if (const auto* pass = std::get_if<parallel::ParameterPass>(&entry)) {
      parameter_passes_.back().push_back(*pass);
    }
    for (const parallel::Action& action : parallel::ActionsOf(entry)) {
      passes_.push_back(action);
      begins_pair_.push_back(std::holds_alternative<parallel::OverlappedPair>(entry) &&
                             action.task == parallel::Task::kForward);
      parameter_passes_.emplace_back();
    }
  }
}

std::vector<int> PipelineStage::ChunkBegins() const {
  std::vector<int> begins;
  for (const Chunk& chunk : chunks_) begins.push_back(chunk.first_layer);
  return begins;
}

std::vector<int> PipelineStage::WorkOfLayers(const model::WorkOptions& options) const {
  const std::vector<int> begins = ChunkBegins();
  return model::WorkOfLayers(model(), options, begins, std::vector<int>(begins.size(), stage_));
}

MegatronAlignment MegatronAlignmentOf(const PipelineStage& stage) {
  const std::vector<parallel::Action>& passes = stage.passes();
  const auto behind = static_cast<std::size_t>(stage.stage());
  const std::size_t chunks = stage.chunks().size();
  std::vector<std::size_t> forwards, backwards;  // passes, in order
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    if (passes[pass].task == parallel::Task::kForward) forwards.push_back(pass);
    if (parallel::EndsBackward(passes[pass].task)) backwards.push_back(pass);
  }
  MegatronAlignment alignment{.gathered_before = {}, .reduced_after = {}};
  alignment.gathered_before.resize(passes.size());
  alignment.reduced_after.resize(passes.size());

  std::vector<bool> begun(chunks, false);
  for (std::size_t item = 0; item < forwards.size(); ++item) {
    const std::size_t chunk = stage.chunk_of(passes[forwards[item]]);
    if (begun[chunk]) continue;
    begun[chunk] = true;
    if (item == 0) {
      for (std::size_t first = 0; first < chunks && first < 2; ++first) {
        alignment.gathered_before[forwards[0]].push_back(first);
      }
    } else if (chunk > 0 && chunk + 1 < chunks) {
      const std::size_t sent = item > behind ? item - behind : 0;
      alignment.gathered_before[forwards[sent]].push_back(chunk + 1);
    }
  }
  std::vector<bool> ended(chunks, false);
  for (std::size_t item = backwards.size(); item-- > 0;) {
    const std::size_t chunk = stage.chunk_of(passes[backwards[item]]);
    if (ended[chunk]) continue;
    ended[chunk] = true;
    if (item + behind < backwards.size()) {
      alignment.reduced_after[backwards[item + behind]] = chunk;
    }
  }
  return alignment;
}

}  // namespace stepcast::lowering
