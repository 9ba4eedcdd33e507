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

// Returns the messages of a stage as input for StageMessages. Each pass has the slots of its
// activations and received gradients, and the pass of this stage that receives its output.
// Micro-batches in flight at the same time have different slots. `works` are the works of the
// stage's layers. `rank` is any rank of the stage.
StageMessages::Stage MessagesOf(const scenario::Scenario& scenario, const parallel::Grids& grids,
                                const PipelineStage& stage,
                                const std::vector<model::LayerWork>& works, int rank);

// A check word in the data flow of passes. Each rank has a 32-bit word per micro-batch. Received
// messages and collectives inside layers change the word. Messages to other ranks contain the word,
// and the gradients depend on the word. A missing, late or misdirected message or collective
// therefore changes the parameters.
//
// All-gathers and messages transfer the word itself. Sums transfer small integers derived from the
// word, whose sum is exact. Without a data flow, or without communication inside passes, all
// functions do nothing. validate/training_check.h computes the same words without programs.
class PassValues {
 public:
  struct Place {
    int chunks = 1;               // number of chunks of all stages
    std::int64_t batch_part = 0;  // index of the part of the batch that this rank trains on
    // Whether the word must be equal on all ranks that share layers, or that have equal gradients
    // of complete tensors. False if the results of a reduce-scatter make the words differ.
    bool one_word = true;
  };
  PassValues(const Place& place, ProgramBuilder& builder) : place_(place), builder_(builder) {}

  // `words` is the number of passes in flight at once. `communicates`: layers communicate.
  // `splits`: the backward pass of weights uses the word of the backward pass of inputs.
  void WritePrologue(int words, bool communicates, bool splits);

  // Add effects to the first and last kernels of a pass (with ProgramBuilder::With). A backward
  // pass begins with recomputation or with the received gradient. `received` is the buffer of a
  // neighbor's message (kNone: no message). `chunk` is the index among the chunks of all stages.
  // `word` is the index of the micro-batch's word among the words in flight.
  void BeginForward(int chunk, int word, Index received);
  void TurnBack(int chunk, int word);
  void BeginBackward(int chunk, Index received);
  // Copies the word to the outgoing message.
  void HandOn(Index sent);
  void ContinueBackward(int word);
  // Returns the index of the current pass's word in the buffer of words. A caller that alternates
  // between two passes must call SetPresent at each switch, with the index of the next pass.
  int present() const { return present_; }
  void SetPresent(int word) { present_ = word; }

  // Call Take before a kernel that reads the result of a collective, and Give before a kernel that
  // writes the input of a collective.
  void Take(const model::ValueUse& use, Index buffer);
  void Give(const model::ValueUse& use, Index buffer);

  // Returns the location of the word that seeds the gradients of the current backward pass. If the
  // location has no buffer, the seed depends on rank, step and micro-batch.
  program::Elements seed() const;

 private:
  bool on() const { return words_ != program::kNone; }
  program::Elements Word(int at) const;
  // Returns the location of the word in a received message. The location has no buffer if the
  // message is shorter than a word.
  program::Elements Carried(Index received);
  // Returns the size of each part of a value's buffer. Each part starts with a word.
  Bytes PartOf(const model::ValueUse& use, Index buffer) const;
  // Mixes the words in `received` and `also`, and the number `salt`, into the check word of the
  // current pass.
  void Mix(program::Elements received, program::Elements also, std::int64_t salt);
  int BackwardOf(int word) const { return splits_ ? in_flight_ + word : in_flight_; }

  const Place place_;
  ProgramBuilder& builder_;
  // The buffer of check words: one word per micro-batch in flight, then one word for backward. With
  // `splits_`, the buffer has one word for the backward of each micro-batch in flight instead.
  Index words_ = program::kNone;
  bool splits_ = false;
  int in_flight_ = 0;
  int present_ = 0;  // index of the current pass's word in the buffer of words
};

// Offload of blocks' activations to host memory between forward and backward.
//
// Forward: after a block is computed, a separate stream copies its activations to the host. After
// the next block, the compute stream waits for the copies, and the device memory is freed. The last
// block's activations remain on the device, because its backward is next. Backward: when a block's
// backward begins, the activations of the previous block are copied back. The activations of two
// blocks are therefore on the device at once. Copies use pinned memory. The method is Transformer
// Engine's double buffering (NVIDIA/TransformerEngine, transformer_engine/pytorch/cpu_offload.py,
// AsyncDoubleBufferGroupOffloadHandler).
class ActivationOffload {
 public:
  explicit ActivationOffload(ProgramBuilder& builder) : builder_(builder) {}

  // Adds a block. Call this function in the order of forward. `buffers` are the activations that
  // the layer keeps.
  void AddBlock(int layer, Entries buffers);
  // Writes the prologue. Call this function after the last block is added. Does nothing for fewer
  // than two blocks.
  void WritePrologue();

  // Writes the copies to the host. Call this function after the layer's forward.
  void AfterForward(int layer);
  // Writes the copies back to the device. Call this function before the layer's backward.
  void BeforeBackward(int layer);

 private:
  struct Block {
    int layer = 0;
    Entries buffers;
    Index at_host = program::kNone, back = program::kNone;  // indices of events
  };
  bool active() const { return blocks_.size() > 1; }
  // Returns the layer's index in blocks_, or -1 if the layer is not an offloaded block.
  int Find(int layer) const;

  ProgramBuilder& builder_;
  std::vector<Block> blocks_;
  StreamId to_host_ = 0, to_device_ = 0;
  Index computed_ = program::kNone, begun_ = program::kNone;  // indices of events
};

// FP8 scales from earlier steps (model::Fp8Scaling::kDelayed), as updated by Transformer Engine
// (transformer_engine/pytorch/fp8.py, reduce_and_update_fp8_tensors). The update runs where
// autocast ends. In Megatron-LM, autocast ends after a micro-batch's forward through a chunk of
// blocks, and at the end of the backward of the chunk's first module.
//
// The maxima of all FP8 tensors of the rank are stored in one tensor, which is all-reduced with
// max. One kernel then computes scales from the maxima and their history. The all-reduce is over
// all ranks of a pipeline stage (Megatron-LM's get_amax_reduction_group; with tp_only_amax_red,
// over the ranks among which layers are divided). Without a group, it is over all ranks. Later
// work, including a message to the next stage, waits for the update.
class ScaleUpdates {
 public:
  // `model` is this rank's part of the model.
  ScaleUpdates(const plan::Plan& plan, const parallel::Grids& grids, const model::Model& model,
               ProgramBuilder& builder);

  void WritePrologue(StreamId compute);

  // Writes the update if `layer` is the last block of a pass over the layers [first, end). Call
  // this function after each layer's forward or backward.
  void AfterLayer(StreamId compute, parallel::Task task, int layer, int first, int end);

 private:
  // The update of the scales of forward or backward.
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
  std::int64_t weights_ = 0;  // number of linear layers in FP8; 0: no update
  Index largest_ = program::kNone;
  Update forward_, backward_;
};

}  // namespace stepcast::lowering
