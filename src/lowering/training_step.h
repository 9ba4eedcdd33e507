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
#include "src/parallel/rank_grid.h"
#include "src/plan/plan.h"
#include "src/scenario/scenario.h"

// The part of a training step that all sharding strategies have in common: micro-batches, forward
// and backward of layers, recomputation and activations. A sharding strategy decides where
// parameters and gradients are stored, and when they are communicated.
namespace stepcast::lowering {

// The hooks of a sharding strategy at the points of a step, in host order. Layers and tensors are
// indices in the model.
class ShardingStrategy {
 public:
  // Selects one of a layer's operator lists (model::LayerWork).
  enum class Pass : std::uint8_t { kForward, kRecompute, kBackward };

  virtual ~ShardingStrategy() = default;

  // Allocates the buffers that persist between steps. Called before the first step.
  virtual void WritePrologue() = 0;
  // Returns whether the strategy stores untrained parameters itself. If false, each rank stores all
  // untrained parameters.
  virtual bool keeps_frozen() const { return false; }
  virtual void BeginStep() {}
  virtual void BeginForward() {}
  virtual void BeforeForward(int /*layer*/) {}
  virtual void AfterForward(int /*layer*/) {}
  virtual void BeforeBackward(int /*layer*/) {}
  virtual void AfterBackward(int /*layer*/) {}
  // Called before and after each pass of the stage (TrainingStep::pass), after its message is
  // received and before its message is sent.
  virtual void BeginPass() {}
  virtual void EndPass() {}
  // Writes gathers, frees or reductions of the schedule. Called between passes, after the previous
  // pass's messages.
  virtual void WriteParameterPass(const parallel::ParameterPass& /*pass*/) {}
  // Called when all backward kernels of a micro-batch are issued.
  virtual void EndBackward() {}
  // Updates the parameters. Called last in the step.
  virtual void WriteUpdate() = 0;

  // Returns whether BeforeOperator and AfterOperator are called around each operator of a layer.
  // These functions may write instructions and declare the reads of the operator's kernel
  // (ProgramBuilder::Use).
  virtual bool follows_operators() const { return false; }
  virtual void BeforeOperator(Pass /*pass*/, int /*layer*/, std::size_t /*op*/) {}
  virtual void AfterOperator(Pass /*pass*/, int /*layer*/, std::size_t /*op*/) {}

  // Appends the ranges of the layer's parameters. The layer's first and last kernels read these
  // ranges in every pass. Called once, after the prologue.
  virtual void AppendParameterReads(int layer, std::vector<program::BufferUse>& uses) = 0;
  // Called before a kernel that contributes to the gradient of `tensor` from `layer`. Allocates
  // memory at the first contribution, and declares the written ranges (ProgramBuilder::Use) and
  // their contents (TrainingStep::WithGradient).
  virtual void WriteGradient(int layer, int tensor) = 0;
  // Called after this micro-batch's last contribution to the gradient of `tensor`.
  virtual void GradientReady(int tensor) = 0;
};

class TrainingStep {
 public:
  TrainingStep(const scenario::Scenario& scenario, const LowerOptions& options);

  // Writes the prologue and the step. Call Write once.
  program::Program Write(ShardingStrategy& strategy);

  const scenario::Scenario& scenario() const { return scenario_; }
  // Returns this rank's part of the model.
  const model::Model& model() const { return stage_.model(); }
  const PipelineStage& stage() const { return stage_; }
  const plan::Plan& plan() const { return scenario_.plan; }
  const std::vector<model::LayerWork>& works() const { return works_; }
  int work_of(int layer) const { return work_of_layer_[layer]; }  // index in works()
  std::span<const int> work_of_layers() const { return work_of_layer_; }
  int rank() const { return options_.rank; }
  // Returns the grids of all ranks of the plan.
  const parallel::Grids& grids() const { return grids_; }
  ProgramBuilder& builder() { return builder_; }
  StreamId compute() const { return program::Program::kComputeStream; }

  // Return the index of the current micro-batch, and whether it is the last of the step.
  std::int64_t micro_batch() const { return now_.micro_batch; }
  bool last_micro_batch() const {
    return now_.micro_batch + 1 == plan().training.gradient_accumulation;
  }
  // Returns whether no later pass of the stage contributes to the tensor's gradient.
  bool completes(int tensor) const { return now_.pass == last_pass_of_tensor_[tensor]; }
  std::size_t pass() const { return now_.pass; }  // index in the stage's passes
  bool last_pass() const { return now_.pass + 1 == stage_.passes().size(); }

  // Returns the index of the tensor's first element among all elements of the complete model.
  std::int64_t first_element(int tensor) const { return first_elements_[tensor]; }

  // Declares that the next kernel writes to `target` the gradient of the tensor's elements [first,
  // first + elements). `target` must be a use of the kernel. With `add`, the kernel adds to
  // `target`. The kernel reads the parameters in `source`. The micro-batch's loss is divided by the
  // number of micro-batches.
  void WithGradient(int tensor, std::int64_t first, std::int64_t elements,
                    const program::Elements& target, const program::Elements& source, bool add);

 private:
  // Makes the host wait for the compute stream or, at the end of a phase, for all streams. Does
  // nothing unless the training loop reads a device value or synchronizes its timers at this point.
  void WaitOnHost(plan::HostWaits where);
  // Reserves an estimated amount of memory for the tables, to avoid reallocations.
  void Reserve();
  // The entries of an operation list in the program's tables: one kernel or collective per
  // operation, in order.
  struct OperationEntries {
    std::vector<Index> kernels{};  // kNone for a group operation
    // For each operation, the end of the run of plain kernels that starts with this operation. A
    // plain kernel is not the first or last of the list, allocates and releases nothing, and has no
    // other effects.
    std::vector<std::size_t> plain_end{};
    std::vector<GroupOperations::Entry> groups{};  // by operation; may be empty
    // For each operation, the event after it that the host waits for. Empty if the host waits for
    // no operation.
    std::vector<Index> host_events{};
    // For each operation, the event after its kernel that another lane waits for. Empty if there
    // are no such events.
    std::vector<Index> lane_events{};
    Index LaneEvent(std::size_t operation) const {
      return lane_events.empty() ? program::kNone : lane_events[operation];
    }
    // Returns the event that is recorded after the operation for other operations.
    Index Done(std::size_t operation) const {
      const Index of_lane = LaneEvent(operation);
      return of_lane != program::kNone ? of_lane : groups[operation].done;
    }
    Index HostEvent(std::size_t operation) const {
      return host_events.empty() ? program::kNone : host_events[operation];
    }
    // The operations at which the list's turns end (model::TurnEnds).
    std::vector<std::size_t> turn_ends{};
    std::vector<int> unfinished{};  // group operations that no operation in the list waits for
    std::vector<model::ValueUse> unreleased{};      // uses of communicated values
    std::size_t first_kernel = 0, last_kernel = 0;  // operations on the compute stream
    std::size_t first_beside = 0;  // first kernel of the second lane; may be past the end
  };
  // The entries for a layer's work in the program's tables. Layers with the same work run one at a
  // time, so they share temporary buffers.
  struct Work {
    OperationEntries forward, recompute, backward, backward_input, backward_weight;
    std::vector<Entries>
        recomputed;  // buffers, by position among the checkpoint's layers with this work
    std::vector<Index> communicated{};
    // Gradients passed from layer to layer. Even and odd layers have different buffers, because a
    // layer writes one buffer while it reads the other.
    Index handed_back[2] = {program::kNone, program::kNone};
    Entries forward_transient, backward_transient;  // indices of buffers
    Entries input_transient, weight_transient;      // buffers of the two parts of a split backward
  };
  // Events that the next kernel waits for, and buffers that the kernel reads before their release.
  struct Pending {
    std::vector<Index> events{};
    std::vector<std::pair<Index, model::ValueUse>> buffers{};
  };

  // The progress of a pass that is being written. The two passes of a pair are written alternately.
  struct PassProgress {
    std::size_t pass = 0;  // index in the stage's passes
    std::int64_t micro_batch = 0;
    Pending pending{};
    bool turned_back = false;      // for backward: whether it has begun
    bool begins_backward = false;  // whether it is the part of a split backward that runs first
    int last_layer = 0;            // last layer of a backward
    int word = 0;                  // value of PassValues::present
  };
  // A turn: the operations [begin, end) of a list.
  struct Turn {
    std::size_t begin = 0, end = 0;
  };

  // The reads of a layer's first and last kernels, as ranges of reads_:
  //   - [first, parameters): the layer's parameters
  //   - for backward, by slot: the values that forward and recomputation kept
  //   - for the weight part of a split backward, by slot: the kept values that the part reads
  struct LayerReads {
    std::size_t first = 0, parameters = 0;
    std::size_t activations = 0;  // number per slot, after the parameters
    // `weights` is the index in reads_ of the first read of the weight part of backward. `left` is
    // the number of reads of the weight part per slot.
    std::size_t weights = 0, left = 0;
  };

  void AddWork(const model::LayerWork& work, const model::Layer* sample);
  // Returns the buffer named after the value. All layers share the buffer.
  Index RegisteredBuffer(const model::LayerValue& value);
  void AddLayers();
  void AddTensors();
  void FindReads(ShardingStrategy& strategy);
  // Allocates untrained parameters, in one buffer per layer. A tied parameter is in the buffer of
  // the first layer that uses it.
  void AllocateFrozen();
  // Finds the last pass that contributes to each gradient.
  void FindLastPasses();
  // Adds a range of reads_ to the next kernel's uses.
  void UseReads(std::size_t first, std::size_t end);
  void WritePass(ShardingStrategy& strategy);
  // Writes the current pass and the next pass (a forward and a backward) alternately. One pass
  // computes while the expert all-to-alls of the other pass are in flight (Megatron-Core,
  // core/models/common/model_chunk_schedule_plan.py).
  void WritePair(ShardingStrategy& strategy);
  // Writes one layer of each pass, in alternating turns. The backward pass has the first turn. The
  // layers are specified by their positions in the passes.
  void WriteTurns(ShardingStrategy& strategy, PassProgress& forward, int forward_place,
                  PassProgress& backward, int backward_place);
  // Switches to the other pass of the pair.
  void SwitchTo(PassProgress& from, PassProgress& to);
  void BeginPass(ShardingStrategy& strategy);
  void BeginBackwardPass(ShardingStrategy& strategy);
  void EndPass(ShardingStrategy& strategy);
  // Returns the layer at position `place` of the current pass. A backward starts at the last layer.
  int LayerAt(int place) const {
    return task() == parallel::Task::kForward ? chunk().first_layer + place
                                              : chunk().end_layer - 1 - place;
  }
  int layers_of_pass() const { return chunk().end_layer - chunk().first_layer; }
  // Returns the entries of the operation list that the layer runs in the current pass, without
  // recomputation.
  const OperationEntries& EntriesOf(int layer) const;
  // Returns whether the current pass has a layer that an expert all-to-all divides into turns.
  bool HasTurns() const;
  // Writes one turn of the layer's pass. The first turn includes the work before the list, and the
  // last turn includes the work after the list.
  void WriteLayer(ShardingStrategy& strategy, int layer, std::size_t turn);
  void WriteLayer(ShardingStrategy& strategy, int layer);  // writes all turns
  void WriteTurn(ShardingStrategy& strategy, int layer, Turn turn);
  void WriteForward(ShardingStrategy& strategy, int layer, Turn turn);
  void WriteBackward(ShardingStrategy& strategy, int layer, Turn turn);
  void BeginLayerBackward(ShardingStrategy& strategy, int layer);
  void EndLayerBackward(ShardingStrategy& strategy, int layer);
  // Writes the part of backward that computes weight gradients.
  void WriteWeights(ShardingStrategy& strategy, int layer, Turn turn);
  // Call BeginGradients before a backward pass. Call BeginContributions before, and
  // EndContributions after, the gradient operations of a layer.
  void BeginGradients();
  void BeginContributions(int layer);
  void EndContributions();
  // Returns the operation list that the layer's backward runs in the current pass.
  const std::vector<model::Operation>& BackwardOf(int layer) const;
  // Writes the recomputation before the layer's backward. For the last layer of a checkpoint,
  // recomputes all layers of the checkpoint.
  void Recompute(ShardingStrategy& strategy, int layer);
  // Returns the values that the layer recomputes.
  const Entries& Recomputed(int layer) const {
    return entries_[work_of(layer)].recomputed[place_in_checkpoint_[layer]];
  }
  // Writes one turn of an operation list.
  void RunLayer(ShardingStrategy& strategy, ShardingStrategy::Pass pass, int layer,
                const OperationEntries& entries, const std::vector<model::Operation>& operations,
                Turn turn);
  // Returns the first buffer that exists only during the layer's forward or complete backward.
  // kNone: no such buffer exists, or recomputation owns it.
  Index TemporariesOf(ShardingStrategy::Pass pass, int layer) const;
  // Makes the host wait for the event, then read the values that were copied to the host.
  void AwaitOnHost(Index event);
  // Adds the pending waits and reads to the next kernel.
  void TakePending();
  // Writes the pending waits, then the kernel, then the gradients that the kernel completes.
  void RunKernel(ShardingStrategy& strategy, int layer, const model::Operation& operation,
                 Index kernel);
  OperationEntries AddOperations(const std::vector<model::Operation>& operations, Issuer issuer);
  void AddLane(std::uint8_t lane);  // creates the lane and its stream if needed
  // Returns the buffer of a layer's value in the current pass.
  Index BufferOf(model::ValueId value, int layer) const;
  // An operation list of a layer that is being written in the current pass.
  struct ListRun {
    ShardingStrategy& strategy;
    ShardingStrategy::Pass pass;
    int layer;
    const OperationEntries& entries;
    const std::vector<model::Operation>& operations;
    // The kind of list; at most one of these members is true. `forward`: the layer's forward list.
    // `weights`: the weight part of backward. `backward`: complete backward, or its input part. If
    // all are false, the list is recomputed.
    bool forward, weights, backward;
    bool begins, ends;  // whether the list is the first or last list of the stage's pass
    bool hands_on;      // the list ends with a collective whose result is sent
    Index passing_by;   // result of TemporariesOf
  };
  void WriteKernel(const ListRun& run, std::size_t i);
  // Adds the layer's parameters and kept values to the uses of the next kernel. Call this function
  // before the first and the last kernel of the list.
  void UseWhatTheLayerReads(const ListRun& run);
  // Allocates the values that the operation creates, and declares writes of the values that are
  // used after the operation list.
  void BeginLives(ShardingStrategy::Pass pass, int layer, const model::Operation& operation);
  // Called for the last kernel before the layer's backward. The kernel writes the gradient that
  // group operations at the start of backward read.
  void HandBack(int layer);
  // Returns new buffers for received activations, by chunk and slot.
  std::vector<std::vector<Index>> AddInputs();
  // Returns the buffer that the current pass's chunk received. kNone for the model's first chunk.
  Index Received() const;
  // Returns whether another stage sent the activation that the layer keeps.
  bool ReceivesInto(int layer, int activation) const;
  // Return properties of the current pass.
  parallel::Task task() const { return stage_.passes()[now_.pass].task; }
  std::size_t chunk_index() const { return messages_.stage().chunk_of[now_.pass]; }
  const PipelineStage::Chunk& chunk() const { return stage_.chunks()[chunk_index()]; }
  int word() const { return static_cast<int>(chunk_index()) * slots_ + slot(); }
  // Add uses to the first and last kernels of a pass: the read of the received message and the
  // write of the sent message.
  void BeginForward();
  void BeginBackward();
  void WriteOutput();
  // Writes a kernel without cost that writes the sent message, unless another kernel writes the
  // message.
  void HandOn(ShardingStrategy& strategy, int layer);
  // Returns the slot of the pass that is being written.
  int slot() const { return slot_of_pass_[now_.pass]; }
  std::size_t At(int slot, int layer) const {
    return static_cast<std::size_t>(slot) * model().layers.size() + static_cast<std::size_t>(layer);
  }
  const Entries& Saved(int slot, int layer) const { return saved_[At(slot, layer)]; }
  // Returns the values that the input part of a split backward keeps for the weight part.
  const Entries& Deferred(int slot, int layer) const { return deferred_[At(slot, layer)]; }
  // Returns Deferred() without values of other chunks. Values of other chunks are in the receive
  // buffer or, after the model's last layer, do not exist.
  Entries DeferredHere(int slot, int layer) const;
  // Returns the received gradient that backward's weight part reads. kNone if no gradient was
  // received.
  Index ReceivedForWeights(int layer) const;
  // Returns the buffer of the gradient of the layer's output, which the next layer of the chunk
  // writes. kNone: the layer reads no separate buffer.
  Index HandedBack(int layer) const;

  const scenario::Scenario& scenario_;
  const LowerOptions options_;
  const parallel::Grids grids_;
  const PipelineStage stage_;
  ProgramBuilder builder_;
  DataLoadingAndSaving loading_and_saving_;
  const std::vector<model::LayerWork> own_works_;  // empty if the caller provided them
  const std::vector<model::LayerWork>& works_;
  std::vector<int> work_of_layer_;
  std::vector<std::size_t>
      place_in_checkpoint_;  // by layer: position among the checkpoint's layers with the same work
  ActivationOffload offload_;
  GroupOperations groups_;
  Index handing_on_ = program::kNone;  // kernel at the end of passes that end with a collective
  // The buffer for token counts that kernels copy to the host, and the host task that reads it.
  // kNone: no counts.
  Index counts_at_host_ = program::kNone, read_counts_ = program::kNone;
  std::vector<std::pair<std::string, Index>> registered_;  // persistent buffers by name
  bool communicates_ = false;                              // whether layers communicate
  std::vector<Work> entries_;                              // indexed by work
  int slots_ = 1;                  // maximum number of micro-batches with stored activations
  std::vector<int> slot_of_pass_;  // indexed by pass
  std::vector<Entries> saved_;     // indexed by slot and layer: buffers
  std::vector<Entries> deferred_;  // indexed by slot and layer: buffers
  std::vector<Index> labels_;      // indexed by layer
  // The buffers of untrained parameters by layer. kNone: the layer has no untrained parameters.
  // Empty: no layer has untrained parameters.
  std::vector<Index> frozen_;
  std::vector<std::int64_t> first_elements_;  // indexed by tensor
  std::vector<int> layers_of_tensor_;         // by tensor: number of contributions to its gradient
  std::vector<Index> tied_contribution_;      // indexed by tensor: buffer; kNone: not tied
  std::vector<int> missing_;       // by tensor: contributions still missing in this micro-batch
  std::vector<bool> contributed_;  // by tensor: whether this pass has contributed
  std::vector<std::size_t> last_pass_of_tensor_;
  std::vector<bool> ends_micro_batch_;  // indexed by pass
  std::vector<int> ready_;              // tensors whose gradients the next kernel completes
  std::vector<Index> contributions_;    // contributions of the current layer to tied tensors
  std::vector<program::BufferUse> reads_;
  std::vector<LayerReads> layer_reads_;              // indexed by layer
  std::vector<std::pair<StreamId, Index>> drained_;  // streams and events, for host_waits
  std::vector<StreamId> lanes_;                      // compute streams
  PassProgress now_;                                 // the pass that is being written
  StageMessages messages_;
  PassValues values_;
  ScaleUpdates scales_;
  std::vector<std::vector<Index>> inputs_;  // indexed by chunk and slot; empty for the first chunk
};

}  // namespace stepcast::lowering
