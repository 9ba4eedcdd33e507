#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/model/stage.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// One stage of a scenario's pipeline: its part of the model, as one rank of it has it, and the
// order of its passes. Without pipelining there is one stage that has all of the model.
class PipelineStage {
 public:
  // `schedule`: plan::ScheduleOf the scenario's plan; nothing refers to it afterwards.
  PipelineStage(const scenario::Scenario& scenario, const parallel::PipelineSchedule& schedule,
                int stage);

  int stage() const { return stage_; }
  int stages() const { return stages_; }
  // It has the model's first layers; its last ones.
  bool first() const { return chunks_.front().first; }
  bool last() const { return chunks_.back().last; }
  const model::Model& model() const { return part_ ? part_->model : whole_model(); }
  // All stages', as one rank of a tensor-parallel group has it.
  const model::Model& whole_model() const { return local_ ? *local_ : *whole_; }
  // A part of the pipeline's layers that the stage has: all of them, or one of several, in the
  // order of the layers.
  struct Chunk {
    int number = 0;                      // among those of all stages
    int first_layer = 0, end_layer = 1;  // of model()
    bool first = true, last = true;      // among those of all stages
    int before = 0, behind = 0;          // the stages of the neighbouring chunks
  };
  const std::vector<Chunk>& chunks() const { return chunks_; }
  // What each layer of model() does (model::WorkOfLayers).
  std::vector<int> WorkOfLayers(const model::WorkOptions& options) const;
  // The first layer of each of chunks().
  std::vector<int> ChunkBegins() const;
  int chunks_of_all() const { return stages_ * static_cast<int>(chunks_.size()); }
  // Of a pass: which of chunks().
  std::size_t chunk_of(const parallel::Action& pass) const { return chunk_at(pass.chunk); }
  // Of the chunk of this number: which of chunks().
  std::size_t chunk_at(int number) const {
    std::size_t chunk = 0;
    while (chunks_[chunk].number != number) ++chunk;
    return chunk;
  }
  // The layer that hands its output to the chunk's first one. Not of the first chunk.
  const model::Layer& layer_before(const Chunk& chunk) const {
    const int first = part_->layers[static_cast<std::size_t>(chunk.first_layer)];
    return whole_model().layers[static_cast<std::size_t>(first) - 1];
  }
  // Of a tensor of model(): its index in the whole one.
  int whole_tensor(int tensor) const {
    return part_ ? part_->tensors[static_cast<std::size_t>(tensor)] : tensor;
  }
  // Tensors of model() that layers of other stages use, too, and those stages and this one.
  const std::vector<int>& tied_across() const { return tied_across_; }
  const std::vector<int>& tied_stages() const { return tied_stages_; }

  // What the stage computes, in host order.
  const std::vector<parallel::Action>& passes() const { return passes_; }
  // [pass] it begins a pair that overlaps, whose backward is the next pass.
  const std::vector<bool>& begins_pair() const { return begins_pair_; }
  // What parameters and gradients do before a pass; behind the last one, that of passes().size().
  const std::vector<parallel::ParameterPass>& parameter_passes(std::size_t before) const {
    return parameter_passes_[before];
  }

 private:
  void TakePasses(const parallel::PipelineSchedule::Stage& of_stage);
  // The chunks that the stage has of a model of several stages.
  void CutModel(const scenario::Scenario& scenario, const parallel::PipelineSchedule& schedule);

  const model::Model* whole_;
  std::optional<model::Model> local_;  // where ranks divide layers
  const int stage_, stages_;
  std::optional<model::StageModel> part_;
  std::vector<int> tied_across_, tied_stages_;
  std::vector<parallel::Action> passes_;
  std::vector<bool> begins_pair_;
  std::vector<std::vector<parallel::ParameterPass>> parameter_passes_;  // [pass], and one behind
  std::vector<Chunk> chunks_;
};

}  // namespace stepcast::lowering
