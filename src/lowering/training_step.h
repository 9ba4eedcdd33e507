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

// The part of a training step that is common to all sharding strategies: micro-batches, forward and
// backward of layers, recomputation and activations. A sharding strategy decides where parameters
// and gradients are stored, and when they are communicated.
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
  // Called before and after a pass of the stage (TrainingStep::pass), between its received and sent
  // messages.
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
  // They may write instructions before and after the operator's kernel, and declare the kernel's
  // reads (ProgramBuilder::Use).
  virtual bool follows_operators() const { return false; }
  virtual void BeforeOperator(Pass /*pass*/, int /*layer*/, std::size_t /*op*/) {}
  virtual void AfterOperator(Pass /*pass*/, int /*layer*/, std::size_t /*op*/) {}

  // Appends the ranges of the layer's parameters, which the layer's first and last kernels read in
  // every pass of every micro-batch. Called once, after the prologue.
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

  // Return the index of the micro-batch that is being written, and whether it is the last of the
  // step.
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

  // Declares that the next kernel writes a contribution to the gradient of the tensor's elements
  // [first, first + elements) to `target`, one of the kernel's uses. With `add`, the kernel adds
  // the contribution. The kernel reads the parameters in `source`. As in all frameworks, the
  // micro-batch's loss is divided by the number of micro-batches.
  void WithGradient(int tensor, std::int64_t first, std::int64_t elements,
                    const program::Elements& target, const program::Elements& source, bool add);

 private:
  // Makes the host wait until the compute stream (at the end of a phase, every stream) is idle.
  // Does nothing unless the training loop reads a device value or synchronizes its timers at this
  // point.
  void WaitOnHost(plan::HostWaits where);
  // Reserves an estimated amount of memory for the tables, to avoid most reallocations.
  void Reserve();
  // The entries of an operation list in the program's tables: one kernel or collective per
  // operation, in order.
  struct OperationEntries {
    std::vector<Index> kernels{};  // kNone for a group operation
    // For each operation, the end of the run of plain kernels that starts with it. A kernel is
    // plain if it is neither the first nor the last of the list, allocates and releases nothing,
    // and has no other effects. Most kernels are plain.
    std::vector<std::size_t> plain_end{};
    std::vector<GroupOperations::Entry> groups{};  // by operation; empty if there are no group
                                                   // operations
    // For each operation, the event after the operation that the host waits for later. Empty if
    // there are no host waits.
    std::vector<Index> host_events{};
    // For each operation, the event after the operation's kernel that another lane waits for. Empty
    // if there are no such waits.
    std::vector<Index> lane_events{};
    Index LaneEvent(std::size_t operation) const {
      return lane_events.empty() ? program::kNone : lane_events[operation];
    }
    // Returns the event after the operation that another operation waits for.
    Index Done(std::size_t operation) const {
      const Index of_lane = LaneEvent(operation);
      return of_lane != program::kNone ? of_lane : groups[operation].done;
    }
    Index HostEvent(std::size_t operation) const {
      return host_events.empty() ? program::kNone : host_events[operation];
    }
    // The operations at which turns of the list end (model::TurnEnds).
    std::vector<std::size_t> turn_ends{};
    std::vector<int> unfinished{};  // group operations that no operation in the list waits for
    std::vector<model::ValueUse> unreleased{};      // uses of communicated values
    std::size_t first_kernel = 0, last_kernel = 0;  // operations on the compute stream
    std::size_t first_beside = 0;  // first kernel of the second lane; past the end if there is one
                                   // lane
  };
  // The entries of a layer work in the program's tables. Layers with the same work run one at a
  // time, so they share buffers that exist only during a pass.
  struct Work {
    OperationEntries forward, recompute, backward, backward_input, backward_weight;
    std::vector<Entries>
        recomputed;  // buffers, by position among the checkpoint's layers with this work
    std::vector<Index> communicated{};
    // Gradients passed from layer to layer. There is one buffer for even layers and one for odd
    // layers, because a layer writes one buffer while it reads the other.
    Index handed_back[2] = {program::kNone, program::kNone};
    Entries forward_transient, backward_transient;  // indices of buffers
    Entries input_transient, weight_transient;      // buffers of the two parts of a split backward
  };
  // Work that an operation list leaves to the next kernel. The next kernel waits for these events,
  // and reads these buffers before they are released.
  struct Pending {
    std::vector<Index> events{};
    std::vector<std::pair<Index, model::ValueUse>> buffers{};
  };

  // The progress of a pass that is being written. The passes of a pair are written alternately, in
  // turns.
  struct PassProgress {
    std::size_t pass = 0;  // index in the stage's passes
    std::int64_t micro_batch = 0;
    Pending pending{};
    bool turned_back = false;      // for backward: whether it has begun
    bool begins_backward = false;  // whether it is the first part of a backward that does work
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
  //   - if backward is split, by slot: the reads of its weight part (kept values, and values that
  //     its input part leaves)
  struct LayerReads {
    std::size_t first = 0, parameters = 0;
    std::size_t activations = 0;  // number per slot, after the parameters
    // `weights` is the index in reads_ of the first read of backward's weight part. `left` is the
    // number of these reads per slot.
    std::size_t weights = 0, left = 0;
  };

  void AddWork(const model::LayerWork& work, const model::Layer* sample);
  // Returns the buffer with the value's name, which all layers share.
  Index RegisteredBuffer(const model::LayerValue& value);
  void AddLayers();
  void AddTensors();
  void FindReads(ShardingStrategy& strategy);
  // Allocates untrained parameters, in one buffer per layer. A tied parameter is in the buffer of
  // its first layer.
  void AllocateFrozen();
  // Finds the last pass that contributes to each gradient.
  void FindLastPasses();
  // Adds a range of reads_ to the next kernel's uses.
  void UseReads(std::size_t first, std::size_t end);
  void WritePass(ShardingStrategy& strategy);
  // Writes the current and the next pass, a forward and a backward, alternately in turns. One pass
  // computes while the expert all-to-alls of the other pass are in flight (Megatron-Core,
  // core/models/common/model_chunk_schedule_plan.py).
  void WritePair(ShardingStrategy& strategy);
  // Writes the turns of one layer of each pass, starting with backward's layer. Layers are
  // positions in the pass.
  void WriteTurns(ShardingStrategy& strategy, PassProgress& forward, int forward_place,
                  PassProgress& backward, int backward_place);
  // Switches to the other pass of the pair.
  void SwitchTo(PassProgress& from, PassProgress& to);
  void BeginPass(ShardingStrategy& strategy);
  void BeginBackwardPass(ShardingStrategy& strategy);
  void EndPass(ShardingStrategy& strategy);
  // Returns the layer at position `place` of the current pass. A backward begins with the last
  // layer.
  int LayerAt(int place) const {
    return task() == parallel::Task::kForward ? chunk().first_layer + place
                                              : chunk().end_layer - 1 - place;
  }
  int layers_of_pass() const { return chunk().end_layer - chunk().first_layer; }
  // Returns the entries of the operation list that the layer runs in the current pass, without
  // recomputation.
  const OperationEntries& EntriesOf(int layer) const;
  // Returns whether an expert all-to-all divides the operation list of some layer of the current
  // pass into turns.
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
  // Call BeginGradients before a backward, BeginContributions before a layer's gradient operations,
  // and EndContributions after them.
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
  // kNone if there is no such buffer, or if recomputation owns it.
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
    // The kind of list. All are false in recomputation; otherwise, exactly one is true. `forward`:
    // the layer's forward list. `weights`: the weight part of backward. `backward`: complete
    // backward, or its input part, which passes gradients from the next layer to the previous
    // layer.
    bool forward, weights, backward;
    bool begins, ends;  // whether the list is the first or last list of the stage's pass
    bool hands_on;      // whether the list ends with a collective whose result is sent to another
                        // stage
    Index passing_by;   // result of TemporariesOf
  };
  void WriteKernel(const ListRun& run, std::size_t i);
  // Adds the layer's parameters and kept values to the next kernel's uses. Call this function
  // before the list's first and last kernels.
  void UseWhatTheLayerReads(const ListRun& run);
  // Allocates the values whose lifetime starts with the operation, and declares writes of the
  // values that outlive the operation.
  void BeginLives(ShardingStrategy::Pass pass, int layer, const model::Operation& operation);
  // Called for the last kernel before the layer's backward, which writes the gradient that the
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
  // Add uses to the first and last kernels of a pass: reads of the received message and writes of
  // the sent message.
  void BeginForward();
  void BeginBackward();
  void WriteOutput();
  // Writes a kernel without cost that writes the message to send. Does nothing if another kernel
  // writes the message.
  void HandOn(ShardingStrategy& strategy, int layer);
  // Returns the slot of the pass that is being written.
  int slot() const { return slot_of_pass_[now_.pass]; }
  std::size_t At(int slot, int layer) const {
    return static_cast<std::size_t>(slot) * model().layers.size() + static_cast<std::size_t>(layer);
  }
  const Entries& Saved(int slot, int layer) const { return saved_[At(slot, layer)]; }
  // Returns the values that the first part of a split backward keeps for the second part.
  const Entries& Deferred(int slot, int layer) const { return deferred_[At(slot, layer)]; }
  // Returns Deferred() without values from another chunk, which are in the receive buffer or, after
  // the model's last layer, do not exist.
  Entries DeferredHere(int slot, int layer) const;
  // Returns the received gradient that backward's weight part reads. kNone if no gradient was
  // received.
  Index ReceivedForWeights(int layer) const;
  // Returns the buffer of the gradient of the layer's output, which the next layer of the chunk
  // writes. kNone if the layer reads no separate buffer.
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
  Index handing_on_ = program::kNone;  // kernel for passes that end with a collective
  // Buffer for counts that kernels copy to the host, and the host task that reads it. kNone if
  // there are no counts.
  Index counts_at_host_ = program::kNone, read_counts_ = program::kNone;
  std::vector<std::pair<std::string, Index>> registered_;  // persistent buffers by name
  bool communicates_ = false;                              // whether layers communicate
  std::vector<Work> entries_;                              // indexed by work
  int slots_ = 1;                  // largest number of micro-batches whose activations are stored
                                   // at once
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
  std::vector<int> missing_;                  // by tensor: missing contributions in this
                                              // micro-batch
  std::vector<bool> contributed_;             // by tensor: whether it has a contribution in this
                                              // pass
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
