#pragma once

#include <cstdint>
#include <vector>

#include "src/lowering/pipeline_stage.h"
#include "src/lowering/program_builder.h"
#include "src/scenario/scenario.h"

// The host's work in a step in addition to launching kernels. It has two parts,
// `training.data_loading` and `training.checkpoint_saving`.
//
// Data loading follows torch.utils.data.DataLoader. Without workers, the host makes each
// micro-batch before it starts the micro-batch's forward. With workers, micro-batches are made
// `workers` at a time, and workers x prefetch micro-batches are ready or in progress. The host
// waits for the micro-batch that it needs. The workers appear as one stream that makes a
// micro-batch every time / workers. If steps consume micro-batches faster, loading is the
// bottleneck. A copy to the device follows on the compute stream. If the memory is not pinned, the
// host waits for the copy.
//
// Checkpoint saving is averaged over steps: each step has 1 / every of the copy to the host and of
// the write to storage. All ranks of a node write at once over `bandwidth`. With `sync`, the
// devices wait for both. With `async`, the devices wait for the copy, and for any unfinished write
// of the previous save. Replicated states are saved by their first rank; hybrid sharding saves one
// copy.
namespace stepcast::lowering {

class DataLoadingAndSaving {
 public:
  DataLoadingAndSaving(const scenario::Scenario& scenario, const PipelineStage& stage,
                       ProgramBuilder& builder);

  // Writes the prologue. `slots` is the largest number of micro-batches that are between their
  // forward and their backward at the same time.
  void WritePrologue(int slots);
  // Call BeginMicroBatch before the forward of a micro-batch, and EndMicroBatch after its backward.
  void BeginMicroBatch(std::int64_t micro_batch, int slot);
  void EndMicroBatch(int slot);
  // Writes the checkpoint saving of a step. Call this after the update.
  void EndStep();

 private:
  const scenario::Scenario& scenario_;
  const PipelineStage& stage_;
  const plan::Training& training_;
  ProgramBuilder& builder_;
  StreamId loader_ = 0, writer_ = 0;
  Index load_ = program::kNone;                               // kernel
  bool loads_ = false;                                        // this stage loads data
  std::vector<Index> inputs_;                                 // buffers by slot
  std::vector<Index> loaded_;                                 // events, by micro-batch of the step
  Index copied_ = program::kNone, written_ = program::kNone;  // events
};

// The bytes that saving one checkpoint moves, for a model or a stage's part of it. `of_rank`: the
// first rank copies these bytes from its device. `of_node`: the first node writes these bytes to
// storage.
struct CheckpointBytes {
  Bytes of_rank, of_node;
};
CheckpointBytes CheckpointBytesOf(const scenario::Scenario& scenario, const model::Model& model);

}  // namespace stepcast::lowering
