#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/lowering/data_loading_and_saving.h"
#include "src/lowering/group_operations.h"
#include "src/lowering/lower_options.h"
#include "src/lowering/passes.h"
#include "src/lowering/pipeline_stage.h"
#include "src/lowering/program_builder.h"
#include "src/lowering/stage_messages.h"
#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/scenario/scenario.h"

// The part of a training step that every sharding strategy shares: micro-batches, layers
// forward and backward, recomputation, activations. A sharding strategy adds what it is about:
// where parameters and gradients live, and what is communicated when.
namespace stepcast::lowering {

// What a sharding strategy does at the points of a step, in host order. Layers and tensors are
// indices into the model.
class ShardingStrategy {
 public:
  // Which of a layer's lists of operators runs (model::LayerWork).
  enum class Pass : std::uint8_t { kForward, kRecompute, kBackward };

  virtual ~ShardingStrategy() = default;

  // Allocates what lives from step to step. Runs before the first step.
  virtual void WritePrologue() = 0;
  // It has a place for parameters that are not trained; else each rank has all of them.
  virtual bool keeps_frozen() const { return false; }
  virtual void BeginStep() {}
  virtual void BeginForward() {}
  virtual void BeforeForward(int layer) = 0;
  virtual void AfterForward(int layer) = 0;
  virtual void BeforeBackward(int layer) = 0;
  virtual void AfterBackward(int layer) = 0;
  // A pass of the stage (TrainingStep::pass), around its kernels and inside of its messages.
  virtual void BeginPass() {}
  virtual void EndPass() {}
  // Between passes, behind the messages of the one before: what the schedule says of parameters and
  // gradients.
  virtual void WriteParameterPass(const parallel::ParameterPass& /*pass*/) {}
  // All backward kernels of a micro-batch are issued.
  virtual void EndBackward() {}
  // Updates the parameters; the last part of the step.
  virtual void WriteUpdate() = 0;

  // Around each operator of a layer, for sharding strategies that follow modules: what they do may
  // stand before and after its kernel, and they may say what ranges it reads (ProgramBuilder::Use).
  // Called where it says that it follows them.
  virtual bool follows_operators() const { return false; }
  virtual void BeforeOperator(Pass /*pass*/, int /*layer*/, std::size_t /*op*/) {}
  virtual void AfterOperator(Pass /*pass*/, int /*layer*/, std::size_t /*op*/) {}

  // The ranges of the layer's parameters that its first and last kernels read, in every pass of
  // every micro-batch. Called once, after the prologue.
  virtual void AppendParameterReads(int layer, std::vector<program::BufferUse>& uses) = 0;
  // The kernel that is issued next contributes to the gradient of `tensor`, from `layer`: makes
  // room on the first contribution, says which ranges are written (ProgramBuilder::Use), and what
  // is written there (TrainingStep::WithGradient).
  virtual void WriteGradient(int layer, int tensor) = 0;
  // The last contribution of this micro-batch to the gradient of `tensor` has been issued.
  virtual void GradientReady(int tensor) = 0;
};

class TrainingStep {
 public:
  TrainingStep(const scenario::Scenario& scenario, const LowerOptions& options);

  // Writes prologue and step. Once.
  program::Program Write(ShardingStrategy& strategy);

  const scenario::Scenario& scenario() const { return scenario_; }
  // This rank's part of the model.
  const model::Model& model() const { return stage_.model(); }
  const PipelineStage& stage() const { return stage_; }
  const plan::Plan& plan() const { return scenario_.plan; }
  const std::vector<model::LayerWork>& works() const { return works_; }
  int work_of(int layer) const { return work_of_layer_[layer]; }  // index into works()
  std::span<const int> work_of_layers() const { return work_of_layer_; }
  int rank() const { return options_.rank; }
  ProgramBuilder& builder() { return builder_; }
  StreamId compute() const { return program::Program::kComputeStream; }

  // Which micro-batch is being written, and whether it is the step's last.
  std::int64_t micro_batch() const { return now_.micro_batch; }
  bool last_micro_batch() const {
    return now_.micro_batch + 1 == plan().training.gradient_accumulation;
  }
  // No later pass contributes to the gradient of the tensor; there is no later pass.
  bool completes(int tensor) const { return now_.pass == last_pass_of_tensor_[tensor]; }
  std::size_t pass() const { return now_.pass; }  // of the stage's
  bool last_pass() const { return now_.pass + 1 == stage_.passes().size(); }

  // The number of a tensor's first element among all elements of the whole model.
  std::int64_t first_element(int tensor) const { return first_elements_[tensor]; }

  // The kernel that is written next puts a contribution to the gradient of the tensor's elements
  // [first, first + elements) into `target`, or adds it to what is there, reading the parameters in
  // `source`; that range is one of its uses. A micro-batch's loss is divided by the number of
  // micro-batches, as is the convention of every framework's users.
  void WithGradient(int tensor, std::int64_t first, std::int64_t elements,
                    const program::Elements& target, const program::Elements& source, bool add);

 private:
  // The training loop reads a value of the device, or its timers synchronise: the host goes on when
  // the compute stream (at the end of a phase: every stream) has run dry.
  void WaitOnHost(plan::HostWaits where);
  // Roughly, so that tables seldom have to move.
  void Reserve();
  // What a list of operations has in the program's tables, in their order: a kernel or a collective
  // each.
  struct OperationEntries {
    std::vector<Index> kernels{};  // kNone: a group operation
    // By operation: the end of the plain kernels that begin with it. They lie between the first and
    // the last kernel, make and release nothing, and nothing of what is said of operations holds
    // for them. Most are.
    std::vector<std::size_t> plain_end{};
    std::vector<GroupOperations::Entry> groups{};  // by operation; empty where there are none
    // By operation: the event behind it that the host waits for later; empty where it waits for
    // none.
    std::vector<Index> host_events{};
    // By operation: the event behind a kernel that another lane waits for; empty where there are
    // none.
    std::vector<Index> lane_events{};
    Index LaneEvent(std::size_t operation) const {
      return lane_events.empty() ? program::kNone : lane_events[operation];
    }
    // The event behind an operation that another one waits for.
    Index Done(std::size_t operation) const {
      const Index of_lane = LaneEvent(operation);
      return of_lane != program::kNone ? of_lane : groups[operation].done;
    }
    Index HostEvent(std::size_t operation) const {
      return host_events.empty() ? program::kNone : host_events[operation];
    }
    // Where the list's turns end (model::TurnEnds).
    std::vector<std::size_t> turn_ends{};
    std::vector<int> unfinished{};                  // group operations nothing of it waits for
    std::vector<model::ValueUse> unreleased{};      // of what is communicated
    std::size_t first_kernel = 0, last_kernel = 0;  // operations on the compute stream
    std::size_t first_beside = 0;                   // kernel of the second lane; behind all: none
  };
  // What a work has in the program's tables. Layers that do it come one at a time, so that they
  // share what lives during a pass alone.
  struct Work {
    OperationEntries forward, recompute, backward, backward_input, backward_weight;
    std::vector<Entries>
        recomputed;  // buffers, by its place among those of a checkpoint that do it
    std::vector<Index> communicated{};
    // Of even and of odd layers: a layer makes the one while it reads the other.
    Index handed_back[2] = {program::kNone, program::kNone};
    Entries forward_transient, backward_transient;  // buffers
    Entries input_transient, weight_transient;      // of the parts of backward
  };
  // What a list of operations leaves to the next kernel: group operations to wait for, and buffers
  // that it reads before they are released.
  struct Pending {
    std::vector<Index> events{};
    std::vector<std::pair<Index, model::ValueUse>> buffers{};
  };

  // How far the writing of a pass has come. The passes of a pair are written in turns.
  struct PassProgress {
    std::size_t pass = 0;  // of the stage's passes
    std::int64_t micro_batch = 0;
    Pending pending{};
    bool turned_back = false;      // it is a backward that has begun
    bool begins_backward = false;  // it is the first of a backward to do anything
    int last_layer = 0;            // of a backward
    int word = 0;                  // PassValues::present
  };
  // Operations [begin, end) of a list.
  struct Turn {
    std::size_t begin = 0, end = 0;
  };

  // What a layer's first and last kernels read, of reads_: [first, parameters) its parameters; in
  // backward also what forward and recomputation have kept, slot by slot, and in the weights' part
  // of it what the inputs' part leaves, slot by slot.
  struct LayerReads {
    std::size_t first = 0, parameters = 0;
    std::size_t activations = 0;        // so many behind the parameters for each slot
    std::size_t weights = 0, left = 0;  // where those of the weights' part begin; so many a slot
  };

  void AddWork(const model::LayerWork& work, const model::Layer* sample);
  // The one of this name, for all layers.
  Index RegisteredBuffer(const model::LayerValue& value);
  void AddLayers();
  void AddTensors();
  void FindReads(ShardingStrategy& strategy);
  // Parameters that are not trained, a buffer a layer; a tied one is the first layer's.
  void AllocateFrozen();
  // Which passes contribute to which gradients last.
  void FindLastPasses();
  // Said of the next kernel, from reads_.
  void UseReads(std::size_t first, std::size_t end);
  void WritePass(ShardingStrategy& strategy);
  // The present pass and the one behind it, a forward and a backward, in turns: what the one
  // computes runs beside the exchanges of experts' rows that the other has sent off (Megatron-Core,
  // core/models/common/model_chunk_schedule_plan.py).
  void WritePair(ShardingStrategy& strategy);
  // Turns of a layer of each pass, by its place there, the backward's first.
  void WriteTurns(ShardingStrategy& strategy, PassProgress& forward, int forward_place,
                  PassProgress& backward, int backward_place);
  // Goes on with another pass of the pair.
  void SwitchTo(PassProgress& from, PassProgress& to);
  void BeginPass(ShardingStrategy& strategy);
  void BeginBackwardPass(ShardingStrategy& strategy);
  void EndPass(ShardingStrategy& strategy);
  // Layers of the present pass, in its order; in a backward the last one comes first.
  int LayerAt(int place) const {
    return task() == parallel::Task::kForward ? chunk().first_layer + place
                                              : chunk().end_layer - 1 - place;
  }
  int layers_of_pass() const { return chunk().end_layer - chunk().first_layer; }
  // The entries of what the layer runs in the present pass, recomputation apart.
  const OperationEntries& EntriesOf(int layer) const;
  // Some exchange of experts' rows divides what a layer of the present pass runs.
  bool HasTurns() const;
  // A turn of the layer's pass; what comes before the first one and behind the last one with it.
  void WriteLayer(ShardingStrategy& strategy, int layer, std::size_t turn);
  void WriteLayer(ShardingStrategy& strategy, int layer);  // all turns
  void WriteTurn(ShardingStrategy& strategy, int layer, Turn turn);
  void WriteForward(ShardingStrategy& strategy, int layer, Turn turn);
  void WriteBackward(ShardingStrategy& strategy, int layer, Turn turn);
  void BeginLayerBackward(ShardingStrategy& strategy, int layer);
  void EndLayerBackward(ShardingStrategy& strategy, int layer);
  // The part of backward that is the gradients of weights.
  void WriteWeights(ShardingStrategy& strategy, int layer, Turn turn);
  // Before a backward; before and after a layer's operations that give gradients.
  void BeginGradients();
  void BeginContributions(int layer);
  void EndContributions();
  // What the layer's backward runs in the present pass.
  const std::vector<model::Operation>& BackwardOf(int layer) const;
  // Before the layer's backward: what it does again, or, where it is the last of its checkpoint,
  // all layers of that.
  void Recompute(ShardingStrategy& strategy, int layer);
  // What the layer recomputes.
  const Entries& Recomputed(int layer) const {
    return entries_[work_of(layer)].recomputed[place_in_checkpoint_[layer]];
  }
  // A turn of one pass's list of operations.
  void RunLayer(ShardingStrategy& strategy, ShardingStrategy::Pass pass, int layer,
                const OperationEntries& entries, const std::vector<model::Operation>& operations,
                Turn turn);
  // The first buffer of what lives during the layer's forward, or its whole backward, alone; kNone:
  // there is none, or what is run again has it.
  Index TemporariesOf(ShardingStrategy::Pass pass, int layer) const;
  // The host goes on when the event is there, and reads what was copied to it before that.
  void AwaitOnHost(Index event);
  // Said of the next kernel: it reads what was left to it.
  void TakePending();
  // With the gradients that are complete after it, once what was left to it is there.
  void RunKernel(ShardingStrategy& strategy, int layer, const model::Operation& operation,
                 Index kernel);
  OperationEntries AddOperations(const std::vector<model::Operation>& operations, Issuer issuer);
  void AddLane(std::uint8_t lane);  // and its stream, unless there is one
  // The buffer that holds a value of the layer in the present pass.
  Index BufferOf(model::ValueId value, int layer) const;
  // A list of operations of a layer while the present pass writes it.
  struct ListRun {
    ShardingStrategy& strategy;
    ShardingStrategy::Pass pass;
    int layer;
    const OperationEntries& entries;
    const std::vector<model::Operation>& operations;
    // At most one of the three is true, and none in recomputation. `forward`: the list is the
    // layer's forward. `weights`: it is backward's part for weights. `backward`: it is all of
    // backward, or its part for inputs, and passes gradients from the next layer to the one before.
    bool forward, weights, backward;
    bool begins, ends;  // the list is the first, the last, of the stage's pass
    bool hands_on;      // the list ends with a collective whose result goes to another stage
    Index passing_by;   // TemporariesOf
  };
  void WriteKernel(const ListRun& run, std::size_t i);
  // States which parameters and kept values the next kernel reads. It is called before the list's
  // first and last kernels.
  void UseWhatTheLayerReads(const ListRun& run);
  // Takes the memory of the values that come to life with the operation, which writes those that
  // outlive it.
  void BeginLives(ShardingStrategy::Pass pass, int layer, const model::Operation& operation);
  // The kernel is the last one before the backward of the layer: it writes the gradient that group
  // operations there read.
  void HandBack(int layer);
  // Where received activations go, by chunk and slot.
  std::vector<std::vector<Index>> AddInputs();
  // The buffer that the present pass's chunk has received; kNone: it is the model's first.
  Index Received() const;
  // The activation that the layer keeps is what another stage has sent.
  bool ReceivesInto(int layer, int activation) const;
  // Of the present pass.
  parallel::Task task() const { return stage_.passes()[now_.pass].task; }
  std::size_t chunk_index() const { return messages_.stage().chunk_of[now_.pass]; }
  const PipelineStage::Chunk& chunk() const { return stage_.chunks()[chunk_index()]; }
  int word() const { return static_cast<int>(chunk_index()) * slots_ + slot(); }
  // Said of the first and the last kernel of a pass: what they read of the message that has come
  // and write of the one that goes.
  void BeginForward();
  void BeginBackward();
  void WriteOutput();
  // A kernel without costs that writes the message, where no other does.
  void HandOn(ShardingStrategy& strategy, int layer);
  // Of the pass that is written.
  int slot() const { return slot_of_pass_[now_.pass]; }
  std::size_t At(int slot, int layer) const {
    return static_cast<std::size_t>(slot) * model().layers.size() + static_cast<std::size_t>(layer);
  }
  const Entries& Saved(int slot, int layer) const { return saved_[At(slot, layer)]; }
  // Backward comes in two parts: what the second one reads of the first.
  const Entries& Deferred(int slot, int layer) const { return deferred_[At(slot, layer)]; }
  // But for what another chunk has sent, which lies where it was received, or, behind the model's
  // last layer, nowhere.
  Entries DeferredHere(int slot, int layer) const;
  // Of the weights' part; kNone: nothing that has been received.
  Index ReceivedForWeights(int layer) const;
  // The gradient of the layer's output, which the layer behind it in the chunk hands back; kNone:
  // nothing reads it as a buffer of its own.
  Index HandedBack(int layer) const;

  const scenario::Scenario& scenario_;
  const LowerOptions options_;
  const PipelineStage stage_;
  ProgramBuilder builder_;
  DataLoadingAndSaving loading_and_saving_;
  const std::vector<model::LayerWork> own_works_;  // empty where they are known
  const std::vector<model::LayerWork>& works_;
  std::vector<int> work_of_layer_;
  std::vector<std::size_t>
      place_in_checkpoint_;  // by layer: among the checkpoint's of the same work
  ActivationOffload offload_;
  GroupOperations groups_;
  Index handing_on_ = program::kNone;  // a kernel, to end passes that end with a collective
  // What kernels copy to the host that it must know, and the host's reading it; kNone: nothing.
  Index counts_at_host_ = program::kNone, read_counts_ = program::kNone;
  std::vector<std::pair<std::string, Index>> registered_;  // buffers that stay, by name
  bool communicates_ = false;                              // inside of layers
  std::vector<Work> entries_;                              // by work
  int slots_ = 1;                             // micro-batches whose activations have room
  std::vector<int> slot_of_pass_;             // by pass
  std::vector<Entries> saved_;                // buffers by slot and layer
  std::vector<Entries> deferred_;             // the same
  std::vector<Index> labels_;                 // by layer
  std::vector<Index> frozen_;                 // buffers by layer; kNone: nothing; or empty
  std::vector<std::int64_t> first_elements_;  // by tensor
  std::vector<int> layers_of_tensor_;         // contributions to each gradient
  std::vector<Index> tied_contribution_;      // buffers by tensor; kNone: not tied
  std::vector<int> missing_;                  // of this micro-batch
  std::vector<bool> contributed_;             // tensors, in this pass
  std::vector<std::size_t> last_pass_of_tensor_;
  std::vector<bool> ends_micro_batch_;  // by pass
  std::vector<int> ready_;              // tensors, after the kernel being written
  std::vector<Index> contributions_;    // of the layer being written, to tied tensors
  std::vector<program::BufferUse> reads_;
  std::vector<LayerReads> layer_reads_;              // by layer
  std::vector<std::pair<StreamId, Index>> drained_;  // streams and events, for host_waits
  std::vector<StreamId> lanes_;                      // compute streams
  PassProgress now_;                                 // of the pass that is written
  StageMessages messages_;
  PassValues values_;
  ScaleUpdates scales_;
  std::vector<std::vector<Index>> inputs_;  // by chunk and slot; of the first chunk none
};

}  // namespace stepcast::lowering
