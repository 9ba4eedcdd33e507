#pragma once

#include <cstdint>
#include <vector>

#include "src/lowering/pipeline_stage.h"
#include "src/lowering/program_builder.h"
#include "src/scenario/scenario.h"

// What hosts do for a step beside starting kernels: `training.data_loading` and
// `training.checkpoint_saving`.
//
// Data loading (torch.utils.data.DataLoader). Without workers the host makes each micro-batch
// before it starts its forward. Workers make micro-batches in turn, `workers` at a time, and are
// asked for another one whenever one is taken, so that workers x prefetch are made or in flight;
// the host waits for the one it needs. Together they are a stream that makes one every time /
// workers: it holds the training up where a step takes less than its micro-batches take the
// workers. A copy to the device follows on the compute stream; from memory that is not pinned, the
// host waits for it.
//
// Checkpoint saving, as a step bears it on average: 1 / every of the copy to the host and of the
// writing to storage, which all ranks of a node do at once over `bandwidth`. `sync`: the devices
// wait for both. `async`: for the copy, and for what is still being written of the save before.
// States that every rank has are saved by the first of them; hybrid sharding saves one copy.
namespace stepcast::lowering {

class DataLoadingAndSaving {
 public:
  DataLoadingAndSaving(const scenario::Scenario& scenario, const PipelineStage& stage,
                       ProgramBuilder& builder);

  // So many micro-batches are between their forward and their backward.
  void WritePrologue(int slots);
  // Before the forward of a micro-batch, and after its backward.
  void BeginMicroBatch(std::int64_t micro_batch, int slot);
  void EndMicroBatch(int slot);
  // After the update.
  void EndStep();

 private:
  Index Given(const char* name, Time time);

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

// What one save of a model, or of a stage's part of it, brings to a rank and to its node: bytes
// that leave the first rank's device, and bytes that the first node writes.
struct CheckpointBytes {
  Bytes of_rank, of_node;
};
CheckpointBytes CheckpointBytesOf(const scenario::Scenario& scenario, const model::Model& model);

}  // namespace stepcast::lowering
