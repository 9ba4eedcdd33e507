#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/model/stage.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// One stage of a scenario's pipeline: its part of the model and the order of its passes. Without
// pipelining there is one stage that has all of the model.
class PipelineStage {
 public:
  PipelineStage(const scenario::Scenario& scenario, int stage);

  int stage() const { return stage_; }
  int stages() const { return stages_; }
  bool first() const { return stage_ == 0; }
  bool last() const { return stage_ + 1 == stages_; }

  const model::Model& model() const { return part_ ? part_->model : *whole_; }
  const model::Model& whole_model() const { return *whole_; }
  // The layer that hands its output to the stage's first one. Not of the first stage.
  const model::Layer& layer_before() const {
    return whole_->layers[static_cast<std::size_t>(part_->first_layer) - 1];
  }
  // Of a tensor of model(): its index in the whole one.
  int whole_tensor(int tensor) const {
    return part_ ? part_->tensors[static_cast<std::size_t>(tensor)] : tensor;
  }
  // Tensors of model() that layers of the other end of the pipeline use, too.
  const std::vector<int>& tied_across() const { return tied_across_; }

  // What the stage computes, in host order.
  const std::vector<parallel::Action>& passes() const { return passes_; }
  // The most micro-batches whose forward has begun and whose backward has not ended.
  int in_flight() const { return in_flight_; }

 private:
  const model::Model* whole_;
  const int stage_, stages_;
  std::optional<model::StageModel> part_;
  std::vector<int> tied_across_;
  std::vector<parallel::Action> passes_;
  int in_flight_ = 1;
};

}  // namespace stepcast::lowering
