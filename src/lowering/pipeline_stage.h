#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/model/stage.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// One stage of a scenario's pipeline: the stage's part of the model on one rank, and the order of
// its passes. Without a pipeline, there is one stage with the complete model.
class PipelineStage {
 public:
  // `schedule` is the result of plan::ScheduleOf for the scenario's plan, and is not referenced
  // after construction.
  PipelineStage(const scenario::Scenario& scenario, const parallel::PipelineSchedule& schedule,
                int stage);

  int stage() const { return stage_; }
  int stages() const { return stages_; }
  // Return whether the stage has the model's first and last layers.
  bool first() const { return chunks_.front().first; }
  bool last() const { return chunks_.back().last; }
  const model::Model& model() const { return part_ ? part_->model : whole_model(); }
  // Returns the model of all stages, as divided for one tensor-parallel rank.
  const model::Model& whole_model() const { return local_ ? *local_ : *whole_; }
  // Consecutive layers of the stage. Without interleaving, a stage has one chunk.
  struct Chunk {
    int number = 0;                      // index among the chunks of all stages
    int first_layer = 0, end_layer = 1;  // indices in model()
    bool first = true, last = true;      // whether it is the first or last chunk of all stages
    int before = 0, behind = 0;          // the stages with the previous and the next chunk
  };
  const std::vector<Chunk>& chunks() const { return chunks_; }
  // Returns, for each layer of model(), the index that model::WorkOfLayers assigns to its work.
  std::vector<int> WorkOfLayers(const model::WorkOptions& options) const;
  // Returns the index in model() of the first layer of each chunk, in the order of chunks().
  std::vector<int> ChunkBegins() const;
  int chunks_of_all() const { return stages_ * static_cast<int>(chunks_.size()); }
  // Returns the index in chunks() of the chunk of a pass.
  std::size_t chunk_of(const parallel::Action& pass) const { return chunk_at(pass.chunk); }
  // Returns the index in chunks() of chunk `number`.
  std::size_t chunk_at(int number) const {
    std::size_t chunk = 0;
    while (chunks_[chunk].number != number) ++chunk;
    return chunk;
  }
  // Returns the last layer of the previous chunk. Must not be called for the model's first chunk.
  const model::Layer& layer_before(const Chunk& chunk) const {
    const int first = part_->layers[static_cast<std::size_t>(chunk.first_layer)];
    return whole_model().layers[static_cast<std::size_t>(first) - 1];
  }
  // Returns the index in the complete model of a tensor of model().
  int whole_tensor(int tensor) const {
    return part_ ? part_->tensors[static_cast<std::size_t>(tensor)] : tensor;
  }
  // Return the tensors of model() that other stages also use, and the stages that use them
  // (including this stage).
  const std::vector<int>& tied_across() const { return tied_across_; }
  const std::vector<int>& tied_stages() const { return tied_stages_; }

  // Returns the stage's passes in host order.
  const std::vector<parallel::Action>& passes() const { return passes_; }
  // Returns, for each pass, whether it overlaps with the next pass, which is then a backward pass.
  const std::vector<bool>& begins_pair() const { return begins_pair_; }
  // Returns the parameter passes (gathers, frees, reductions) before pass `index`. If `index` is
  // passes().size(), returns the parameter passes after the last pass.
  const std::vector<parallel::ParameterPass>& parameter_passes(std::size_t before) const {
    return parameter_passes_[before];
  }

 private:
  void TakePasses(const parallel::PipelineSchedule::Stage& of_stage);
  // Sets the stage's chunks if the model is divided among several stages.
  void CutModel(const scenario::Scenario& scenario, const parallel::PipelineSchedule& schedule);

  const model::Model* whole_;
  std::optional<model::Model> local_;  // set if layers are divided among ranks
  const int stage_, stages_;
  std::optional<model::StageModel> part_;
  std::vector<int> tied_across_, tied_stages_;
  std::vector<parallel::Action> passes_;
  std::vector<bool> begins_pair_;
  // The parameter passes before each pass, and one entry for the end of the step.
  std::vector<std::vector<parallel::ParameterPass>> parameter_passes_;
  std::vector<Chunk> chunks_;
};

// The passes at which a stage of Megatron's interleaved pipeline launches data-parallel
// collectives. Each stage is one pass behind the previous stage, so all stages launch a collective
// at the same time (NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py,
// `grad_sync_func` and `param_sync_func`). The two tables are indexed by pass and contain indices
// of the stage's chunks.
struct MegatronAlignment {
  // For each pass, the chunks whose parameters are gathered before the pass. The first two chunks
  // are gathered before the first forward. Chunk q + 1 is gathered s passes before the first
  // forward of chunk q, where s is the number of stages before this stage.
  std::vector<std::vector<std::size_t>> gathered_before;
  // For each pass, the chunk whose gradients are reduced after the pass: s backward passes after
  // the chunk's last backward, where s is the number of stages before this stage. Remaining chunks
  // are reduced at the end.
  std::vector<std::optional<std::size_t>> reduced_after;
};
MegatronAlignment MegatronAlignmentOf(const PipelineStage& stage);

}  // namespace stepcast::lowering
