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
#include "src/parallel/rank_grid.h"
#include "src/plan/plan.h"
#include "src/program/data_flow.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// Returns the messages of a stage as input of StageMessages. For each pass, they include the pass
// of this stage that takes its output, and the slots of activations and received gradients.
// Micro-batches in flight at the same time have different slots. `works` are the works of the
// stage's layers. `rank` is any rank of the stage.
StageMessages::Stage MessagesOf(const scenario::Scenario& scenario, const parallel::Grids& grids,
                                const PipelineStage& stage,
                                const std::vector<model::LayerWork>& works, int rank);

// A check word in the data flow of passes. On each rank, the passes of a micro-batch carry a 32-bit
// word. Words that arrive in messages and in collectives inside layers are mixed into it, outgoing
// ones contain it, and it seeds the gradients. A missing, late or misdirected message or collective
// therefore changes the parameters. All-gathers and messages transfer the word itself; sums
// transfer small integers derived from it, whose sum is exact. Without a data flow, or without
// communication inside passes, all calls do nothing.
//
// validate/training_check.h computes the same words without programs.
class PassValues {
 public:
  struct Place {
    int chunks = 1;               // of all stages
    std::int64_t batch_part = 0;  // the part of the batch that the rank trains on
    // Whether ranks that share layers have the same word, and also ranks whose gradients of whole
    // tensors must be equal. If false, a rank's word may differ, because the result of a
    // reduce-scatter differs from part to part.
    bool one_word = true;
  };
  PassValues(const Place& place, ProgramBuilder& builder) : place_(place), builder_(builder) {}

  // `words` is the number of passes in flight at once. `communicates` is true if layers
  // communicate. If `splits` is true, the backward for weights continues with the word of the
  // backward for inputs.
  void WritePrologue(int words, bool communicates, bool splits);

  // These functions add effects to a pass's first and last kernels (with ProgramBuilder::With). A
  // backward begins with recomputation or with the received gradient. `received` is the buffer of
  // the message from a neighbor; kNone: none. `chunk` is the index among the chunks of all stages.
  // `word` is the index of the micro-batch's word among the words in flight.
  void BeginForward(int chunk, int word, Index received);
  void TurnBack(int chunk, int word);
  void BeginBackward(int chunk, Index received);
  // Writes the word, unchanged, to the outgoing message.
  void HandOn(Index sent);
  void ContinueBackward(int word);
  // Returns the index of the word of the pass being written. A caller that interleaves two passes
  // sets this index at each switch.
  int present() const { return present_; }
  void SetPresent(int word) { present_ = word; }

  // Call Take if the next kernel reads the result of a collective. Call Give if the next kernel
  // writes the input of a collective.
  void Take(const model::ValueUse& use, Index buffer);
  void Give(const model::ValueUse& use, Index buffer);

  // Returns the place of the word that seeds the gradients of the present backward. If the place
  // has no buffer, rank, step and micro-batch determine the seed.
  program::Elements seed() const;

 private:
  bool on() const { return words_ != program::kNone; }
  program::Elements Word(int at) const;
  // Returns the place of the word in a received message. The place has no buffer if the message is
  // shorter than a word.
  program::Elements Carried(Index received);
  // Returns the size of each part of a value's buffer. Each part starts with a word.
  Bytes PartOf(const model::ValueUse& use, Index buffer) const;
  // Mixes the present pass's word (unless it `begins`) with the received values.
  void Mix(program::Elements received, program::Elements also, std::int64_t salt);
  int BackwardOf(int word) const { return splits_ ? in_flight_ + word : in_flight_; }

  const Place place_;
  ProgramBuilder& builder_;
  // The buffer of words: one for each micro-batch in flight. They are followed by one word for the
  // backward or, if backward splits, by one backward word for each micro-batch in flight.
  Index words_ = program::kNone;
  bool splits_ = false;
  int in_flight_ = 0;
  int present_ = 0;  // the word of the pass that is written
};

// Offload of blocks' activations to host memory between forward and backward.
//
// Forward: after a block is computed, its activations are copied to the host on a separate stream
// while the next block computes. After that block, the compute stream waits for the copies, and the
// device memory is freed. The last block's activations stay, because its backward comes next.
// Backward: when a block's backward begins, the activations of the block before it are copied back.
// So the activations of two blocks are on the device at once, and the copies are exposed if a block
// computes faster than the host link transfers its activations. Both copies use pinned memory. This
// is Transformer Engine's double buffering (NVIDIA/TransformerEngine,
// transformer_engine/pytorch/cpu_offload.py, AsyncDoubleBufferGroupOffloadHandler).
class ActivationOffload {
 public:
  explicit ActivationOffload(ProgramBuilder& builder) : builder_(builder) {}

  // Adds a block. Call in the order of forward. `buffers` are the activations that the layer keeps.
  void AddBlock(int layer, Entries buffers);
  // Call after the last block. Does nothing with fewer than two blocks.
  void WritePrologue();

  // Call after the layer's forward is written.
  void AfterForward(int layer);
  // Call before the layer's backward is written.
  void BeforeBackward(int layer);

 private:
  struct Block {
    int layer = 0;
    Entries buffers;
    Index at_host = program::kNone, back = program::kNone;  // events
  };
  bool active() const { return blocks_.size() > 1; }
  // Returns the layer's index in blocks_; -1: the layer is not an offloaded block.
  int Find(int layer) const;

  ProgramBuilder& builder_;
  std::vector<Block> blocks_;
  StreamId to_host_ = 0, to_device_ = 0;
  Index computed_ = program::kNone, begun_ = program::kNone;  // events
};

// FP8 scales from earlier steps (model::Fp8Scaling::kDelayed), as updated by Transformer Engine
// (transformer_engine/pytorch/fp8.py, reduce_and_update_fp8_tensors). The update runs where
// autocast ends: in Megatron-LM after a micro-batch's forward through a chunk of blocks, and at the
// end of the backward of that chunk's first module. The maxima of all FP8 tensors of the rank are
// collected in one tensor, all-reduced with max, and turned into scales by one kernel that uses
// their history. The ranks are those of all axes but the pipeline (fp8_group: Megatron-LM's
// get_amax_reduction_group, which tp_only_amax_red limits to the ranks that divide layers; without
// a group, all ranks). Work issued afterwards waits for the update, including a message to the next
// stage.
class ScaleUpdates {
 public:
  // `model` is this rank's part of the model.
  ScaleUpdates(const plan::Plan& plan, const parallel::Grids& grids, const model::Model& model,
               ProgramBuilder& builder);

  void WritePrologue(StreamId compute);

  // Call after a layer's forward or backward, in a pass over layers [first, end) of the model.
  // Writes the update only after the pass's last block.
  void AfterLayer(StreamId compute, parallel::Task task, int layer, int first, int end);

 private:
  // The update of one direction.
  struct Update {
    Index gather = program::kNone, reduce = program::kNone, renew = program::kNone;
    std::int64_t tensors = 0;
  };
  bool IsBlock(int layer) const {
    return model_.layers[static_cast<std::size_t>(layer)].kind == model::LayerKind::kBlock;
  }
  void Write(StreamId compute, const Update& update);

  const plan::Plan& plan_;
  const parallel::Grids& grids_;
  const model::Model& model_;
  ProgramBuilder& builder_;
  std::int64_t weights_ = 0;  // number of linear layers in FP8; 0: there is no update
  Index largest_ = program::kNone;
  Update forward_, backward_;
};

}  // namespace stepcast::lowering
