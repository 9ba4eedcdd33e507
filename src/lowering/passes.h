#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/lowering/pipeline_stage.h"
#include "src/lowering/program_builder.h"
#include "src/lowering/stage_messages.h"
#include "src/model/layer_work.h"
#include "src/model/model.h"
#include "src/model/operation.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/plan/plan.h"
#include "src/program/data_flow.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// What a stage sends and receives, pass by pass, as StageMessages takes it: which pass takes what
// another chunk of the stage makes, and the slots of activations and of received gradients, none of
// which holds two micro-batches at a time. `works`: of the stage's layers.
// `rank`: one of the stage's.
StageMessages::Stage MessagesOf(const scenario::Scenario& scenario, const PipelineStage& stage,
                                const std::vector<model::LayerWork>& works, int rank);

// What a micro-batch's passes carry in the data flow: a word of 32 bits on each rank, which is made
// from those that messages of other stages and collectives inside layers bring, which goes into
// those that leave, and which gradients are made from. So a message or a collective that is
// missing, late, or on another rank shows in the parameters. All-gathers and messages carry the
// word, sums small integers made of it, which are exact. Without a data flow, or where nothing is
// communicated inside of passes, all calls do nothing.
//
// validate/plain_passes.h says the same without programs.
class PassValues {
 public:
  struct Place {
    int chunks = 1;               // of all stages
    std::int64_t batch_part = 0;  // whose samples the rank trains on
    // Ranks that share layers have one word, as those do whose gradients of whole tensors must come
    // out the same; else what a collective scatters differs from part to part.
    bool one_word = true;
  };
  PassValues(const Place& place, ProgramBuilder& builder) : place_(place), builder_(builder) {}

  // `words`: of the passes that are in flight at once. `communicates`: inside of layers. `splits`:
  // what backward of inputs has come to is what that of weights goes on from.
  void WritePrologue(int words, bool communicates, bool splits);

  // Said of the pass's kernels (ProgramBuilder::With): the first and the last of a forward, and of
  // a backward, which begins with recomputation or where the gradient is there. Messages: the
  // buffer that came from or goes to a neighbour; kNone: none. `chunk`: among those of all stages;
  // `word`: the micro-batch's, of those that are in flight.
  void BeginForward(int chunk, int word, Index received);
  void TurnBack(int chunk, int word);
  void BeginBackward(int chunk, Index received);
  // What leaves the pass: the word as it is.
  void HandOn(Index sent);
  void ContinueBackward(int word);
  // The word of the pass that is written. Who writes two passes in turns sets it at each turn.
  int present() const { return present_; }
  void SetPresent(int word) { present_ = word; }

  // The kernel reads what a collective has brought; writes what one will take.
  void Take(const model::ValueUse& use, Index buffer);
  void Give(const model::ValueUse& use, Index buffer);

  // Where gradients of the present backward take their seed from; no buffer: from rank, step and
  // micro-batch.
  program::Elements seed() const;

 private:
  bool on() const { return words_ != program::kNone; }
  program::Elements Word(int at) const;
  // What a message of at least a word carries; else no place.
  program::Elements Carried(Index received);
  // What has a word of its own at its start.
  Bytes PartOf(const model::ValueUse& use, Index buffer) const;
  // The present pass's word from itself (unless it `begins`) and what has come.
  void Mix(program::Elements received, program::Elements also, std::int64_t salt);
  int BackwardOf(int word) const { return splits_ ? in_flight_ + word : in_flight_; }

  const Place place_;
  ProgramBuilder& builder_;
  // Of micro-batches in flight, and behind them the backward's, or one of each.
  Index words_ = program::kNone;
  bool splits_ = false;
  int in_flight_ = 0;
  int present_ = 0;  // the word of the pass that is written
};

// What blocks keep for backward waits in the host's memory meanwhile.
//
// Forward: once a block has been computed, its activations are copied to the host on a stream of
// their own, beside the next block's kernels; after these the compute stream waits for the copies,
// and the device's memory is free. The last block's stay: its backward comes next. Backward: when a
// block's begins, the activations of the block before it are copied back beside it. So those of two
// blocks are on the device at once, and the copies show where a block computes for a shorter time
// than the host link needs for its activations. Both ways are pinned memory. As Transformer Engine
// does it with double buffers (NVIDIA/TransformerEngine, transformer_engine/pytorch/
// cpu_offload.py, AsyncDoubleBufferGroupOffloadHandler).
class ActivationOffload {
 public:
  explicit ActivationOffload(ProgramBuilder& builder) : builder_(builder) {}

  // In the order of forward: the layer keeps `buffers`.
  void AddBlock(int layer, Entries buffers);
  // After the last block; nothing if there are not two.
  void WritePrologue();

  // The layer's forward has been written.
  void AfterForward(int layer);
  // The layer's backward comes next.
  void BeforeBackward(int layer);

 private:
  struct Block {
    int layer = 0;
    Entries buffers;
    Index at_host = program::kNone, back = program::kNone;  // events
  };
  bool active() const { return blocks_.size() > 1; }
  // In blocks_; -1: not one of them.
  int Find(int layer) const;

  ProgramBuilder& builder_;
  std::vector<Block> blocks_;
  StreamId to_host_ = 0, to_device_ = 0;
  Index computed_ = program::kNone, begun_ = program::kNone;  // events
};

// The scales of FP8 that come of the steps before (model::Fp8Scaling::kDelayed), as Transformer
// Engine keeps them up (transformer_engine/pytorch/fp8.py, reduce_and_update_fp8_tensors): where
// autocast ends, which Megatron-LM has behind a micro-batch's forward through a chunk of blocks,
// and at the end of the backward of that chunk's first module, the largest numbers of all FP8
// tensors of the rank come into one tensor, the ranks agree on the largest of them, and one kernel
// makes scales of their history. The ranks are those of all axes but the pipeline (fp8_group:
// Megatron-LM's get_amax_reduction_group, which tp_only_amax_red confines to the ranks that divide
// layers; without a group all ranks). What is issued behind it waits for it, a message to the next
// stage, too.
class ScaleUpdates {
 public:
  // `model`: this rank's.
  ScaleUpdates(const plan::Plan& plan, const model::Model& model, ProgramBuilder& builder);

  void WritePrologue(StreamId compute);

  // Behind a layer's forward or backward, in a pass over layers [first, end) of the model: does
  // something behind the last block.
  void AfterLayer(StreamId compute, parallel::Task task, int layer, int first, int end);

 private:
  // Of a direction.
  struct Update {
    Index gather = program::kNone, reduce = program::kNone, renew = program::kNone;
    std::int64_t tensors = 0;
  };
  bool IsBlock(int layer) const {
    return model_.layers[static_cast<std::size_t>(layer)].kind == model::LayerKind::kBlock;
  }
  void Write(StreamId compute, const Update& update);

  const plan::Plan& plan_;
  const model::Model& model_;
  ProgramBuilder& builder_;
  std::int64_t weights_ = 0;  // of linear layers in FP8; 0: nothing is done
  Index largest_ = program::kNone;
  Update forward_, backward_;
};

}  // namespace stepcast::lowering
