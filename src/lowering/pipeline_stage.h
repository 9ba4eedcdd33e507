#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/model/stage.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// One stage of a scenario's pipeline: the stage's part of the model, as one rank of the stage
// stores it, and the order of the stage's passes. Without pipelining, one stage has the whole
// model.
class PipelineStage {
 public:
  // `schedule` is the result of plan::ScheduleOf for the scenario's plan. The object does not refer
  // to it after construction.
  PipelineStage(const scenario::Scenario& scenario, const parallel::PipelineSchedule& schedule,
                int stage);

  int stage() const { return stage_; }
  int stages() const { return stages_; }
  // `first` returns whether the stage has the model's first layers, and `last` whether it has the
  // model's last layers.
  bool first() const { return chunks_.front().first; }
  bool last() const { return chunks_.back().last; }
  const model::Model& model() const { return part_ ? part_->model : whole_model(); }
  // Returns the model of all stages, as divided for one rank of a tensor-parallel group.
  const model::Model& whole_model() const { return local_ ? *local_ : *whole_; }
  // One of the stage's runs of consecutive layers, in layer order. Without interleaving, a stage
  // has one chunk.
  struct Chunk {
    int number = 0;                      // among the chunks of all stages
    int first_layer = 0, end_layer = 1;  // indices in model()
    bool first = true, last = true;      // among the chunks of all stages
    int before = 0, behind = 0;          // the stages of the previous and next chunk
  };
  const std::vector<Chunk>& chunks() const { return chunks_; }
  // Returns the index of the work of each layer of model() (model::WorkOfLayers).
  std::vector<int> WorkOfLayers(const model::WorkOptions& options) const;
  // Returns the first layer of each of chunks().
  std::vector<int> ChunkBegins() const;
  int chunks_of_all() const { return stages_ * static_cast<int>(chunks_.size()); }
  // Returns the position that the chunk of a pass has in chunks().
  std::size_t chunk_of(const parallel::Action& pass) const { return chunk_at(pass.chunk); }
  // Returns the index in chunks() of the chunk with this number.
  std::size_t chunk_at(int number) const {
    std::size_t chunk = 0;
    while (chunks_[chunk].number != number) ++chunk;
    return chunk;
  }
  // Returns the layer whose output is the input of the chunk's first layer. The model's first chunk
  // has no such layer.
  const model::Layer& layer_before(const Chunk& chunk) const {
    const int first = part_->layers[static_cast<std::size_t>(chunk.first_layer)];
    return whole_model().layers[static_cast<std::size_t>(first) - 1];
  }
  // Returns the index in the whole model of a tensor of model().
  int whole_tensor(int tensor) const {
    return part_ ? part_->tensors[static_cast<std::size_t>(tensor)] : tensor;
  }
  // `tied_across` returns the tensors of model() that other stages also use. `tied_stages` returns
  // all stages that use these tensors, including this stage.
  const std::vector<int>& tied_across() const { return tied_across_; }
  const std::vector<int>& tied_stages() const { return tied_stages_; }

  // The stage's passes, in host order.
  const std::vector<parallel::Action>& passes() const { return passes_; }
  // Returns, for each pass, whether it begins a pair of overlapping passes. The next pass is then
  // the pair's backward.
  const std::vector<bool>& begins_pair() const { return begins_pair_; }
  // Returns the parameter passes (gathers, frees, reductions) that precede a pass. The index
  // passes().size() stands for the parameter passes after the last pass.
  const std::vector<parallel::ParameterPass>& parameter_passes(std::size_t before) const {
    return parameter_passes_[before];
  }

 private:
  void TakePasses(const parallel::PipelineSchedule::Stage& of_stage);
  // Sets the stage's chunks if the model is divided among several stages.
  void CutModel(const scenario::Scenario& scenario, const parallel::PipelineSchedule& schedule);

  const model::Model* whole_;
  std::optional<model::Model> local_;  // if ranks divide layers
  const int stage_, stages_;
  std::optional<model::StageModel> part_;
  std::vector<int> tied_across_, tied_stages_;
  std::vector<parallel::Action> passes_;
  std::vector<bool> begins_pair_;
  // The parameter passes before each pass, and one more entry for the end of the step.
  std::vector<std::vector<parallel::ParameterPass>> parameter_passes_;
  std::vector<Chunk> chunks_;
};

// The passes at which a stage of Megatron's interleaved pipeline launches data-parallel
// collectives. All stages launch a collective at the same time, when each stage is one pass behind
// the previous one (NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py,
// `grad_sync_func` and `param_sync_func`). Both tables are indexed by the stage's passes and
// contain indices of the stage's chunks.
struct MegatronAlignment {
  // For each pass: the chunks whose parameters are gathered before the pass. The first two chunks
  // are gathered before the first forward. Chunk q + 1 is gathered s passes before the first
  // forward of chunk q, where s is the number of stages before this one.
  std::vector<std::vector<std::size_t>> gathered_before;
  // For each pass: the chunk whose gradients are reduced after the pass. The last backward of this
  // chunk was s backward passes earlier, where s is the number of stages before this one. All other
  // chunks are reduced at the end.
  std::vector<std::optional<std::size_t>> reduced_after;
};
MegatronAlignment MegatronAlignmentOf(const PipelineStage& stage);

}  // namespace stepcast::lowering
