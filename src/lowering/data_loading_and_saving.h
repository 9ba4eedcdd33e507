#pragma once

#include <cstdint>
#include <vector>

#include "src/lowering/pipeline_stage.h"
#include "src/lowering/program_builder.h"
#include "src/scenario/scenario.h"

// The host's work in a step, except kernel launches: `training.data_loading` and
// `training.checkpoint_saving`.
//
// Data loading follows torch.utils.data.DataLoader. Without workers, the host makes each
// micro-batch immediately before its forward. With workers, `workers` micro-batches are made
// concurrently, at most workers x prefetch ahead. The host waits for the micro-batch that it needs.
// One stream represents all workers: it makes a micro-batch every time / workers. The compute
// stream copies the micro-batch to the device. If the memory is not pinned, the host waits for the
// copy.
//
// The cost of saving a checkpoint is averaged over steps: each step does 1 / `every` of the copy to
// the host and of the write to storage. All ranks of a node write at the same time and share
// `bandwidth`. With `sync`, the devices wait for the copy and the write. With `async`, the devices
// wait for the copy, and for an unfinished write of the previous save. Replicated states are saved
// by the first rank that stores them; with hybrid sharding, one copy is saved.
namespace stepcast::lowering {

class DataLoadingAndSaving {
 public:
  DataLoadingAndSaving(const scenario::Scenario& scenario, const PipelineStage& stage,
                       ProgramBuilder& builder);

  // Writes the prologue. `slots` is the largest number of micro-batches between forward and
  // backward.
  void WritePrologue(int slots);
  // Call BeginMicroBatch before the forward of a micro-batch, and EndMicroBatch after its backward.
  void BeginMicroBatch(std::int64_t micro_batch, int slot);
  void EndMicroBatch(int slot);
  // Writes the checkpoint saving of a step. Call this function after the update.
  void EndStep();

 private:
  const scenario::Scenario& scenario_;
  const PipelineStage& stage_;
  const plan::Training& training_;
  ProgramBuilder& builder_;
  StreamId loader_ = 0, writer_ = 0;
  Index load_ = program::kNone;                               // index of a kernel
  bool loads_ = false;                                        // whether this stage loads data
  std::vector<Index> inputs_;                                 // indexed by slot: buffers
  std::vector<Index> loaded_;                                 // by micro-batch of the step: events
  Index copied_ = program::kNone, written_ = program::kNone;  // indices of events
};

// The bytes that are moved to save one checkpoint of a model or a stage. `of_rank`: bytes that the
// first rank copies from its device. `of_node`: bytes that the first node writes to storage.
struct CheckpointBytes {
  Bytes of_rank, of_node;
};
CheckpointBytes CheckpointBytesOf(const scenario::Scenario& scenario, const model::Model& model);

}  // namespace stepcast::lowering
