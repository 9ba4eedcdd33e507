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

// The part of a training step that all sharding strategies share: micro-batches, forward and
// backward of layers, recomputation and activations. A sharding strategy decides where parameters
// and gradients are stored, and when they are communicated.
namespace stepcast::lowering {

// The hooks of a sharding strategy at the points of a step, in host order. Layers and tensors are
// given as indices into the model.
class ShardingStrategy {
 public:
  // Selects one of a layer's operator lists (model::LayerWork).
  enum class Pass : std::uint8_t { kForward, kRecompute, kBackward };

  virtual ~ShardingStrategy() = default;

  // Allocates the buffers that persist across steps. Called before the first step.
  virtual void WritePrologue() = 0;
  // Returns whether the strategy stores untrained parameters itself. If not, each rank stores all
  // of them.
  virtual bool keeps_frozen() const { return false; }
  virtual void BeginStep() {}
  virtual void BeginForward() {}
  virtual void BeforeForward(int /*layer*/) {}
  virtual void AfterForward(int /*layer*/) {}
  virtual void BeforeBackward(int /*layer*/) {}
  virtual void AfterBackward(int /*layer*/) {}
  // Called around a pass of the stage (TrainingStep::pass), between the pass's messages.
  virtual void BeginPass() {}
  virtual void EndPass() {}
  // Writes the gathers, frees or reductions that the schedule prescribes. Called between passes,
  // after the previous pass's messages.
  virtual void WriteParameterPass(const parallel::ParameterPass& /*pass*/) {}
  // Called when all backward kernels of a micro-batch are issued.
  virtual void EndBackward() {}
  // Updates the parameters. Called last in the step.
  virtual void WriteUpdate() = 0;

  // Returns whether BeforeOperator and AfterOperator are called around each operator of a layer.
  // They may write instructions before and after the operator's kernel, and declare the ranges that
  // this kernel reads (ProgramBuilder::Use).
  virtual bool follows_operators() const { return false; }
  virtual void BeforeOperator(Pass /*pass*/, int /*layer*/, std::size_t /*op*/) {}
  virtual void AfterOperator(Pass /*pass*/, int /*layer*/, std::size_t /*op*/) {}

  // Appends the ranges of the layer's parameters that the layer's first and last kernels read in
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
  int work_of(int layer) const { return work_of_layer_[layer]; }  // index into works()
  std::span<const int> work_of_layers() const { return work_of_layer_; }
  int rank() const { return options_.rank; }
  // Returns the grids of the plan's ranks.
  const parallel::Grids& grids() const { return grids_; }
  ProgramBuilder& builder() { return builder_; }
  StreamId compute() const { return program::Program::kComputeStream; }

  // `micro_batch` returns the index of the micro-batch that is being written; `last_micro_batch`
  // returns whether it is the step's last one.
  std::int64_t micro_batch() const { return now_.micro_batch; }
  bool last_micro_batch() const {
    return now_.micro_batch + 1 == plan().training.gradient_accumulation;
  }
  // Returns whether no later pass of the stage contributes to the tensor's gradient.
  bool completes(int tensor) const { return now_.pass == last_pass_of_tensor_[tensor]; }
  std::size_t pass() const { return now_.pass; }  // index among the stage's passes
  bool last_pass() const { return now_.pass + 1 == stage_.passes().size(); }

  // Returns the index of the tensor's first element among all elements of the whole model.
  std::int64_t first_element(int tensor) const { return first_elements_[tensor]; }

  // Declares that the next kernel writes a contribution to the gradient of the tensor's elements
  // [first, first + elements) into `target`, one of the kernel's uses. If `add`, the kernel adds
  // the contribution. The kernel reads the parameters in `source`. The contribution is for a
  // micro-batch's loss divided by the number of micro-batches, as in all frameworks.
  void WithGradient(int tensor, std::int64_t first, std::int64_t elements,
                    const program::Elements& target, const program::Elements& source, bool add);

 private:
  // Makes the host wait until the compute stream is idle or, at the end of a phase, until every
  // stream is. Does so only if the training loop reads a device value or synchronizes its timers at
  // this point.
  void WaitOnHost(plan::HostWaits where);
  // Reserves memory for the tables, by an estimate, so that tables are seldom reallocated.
  void Reserve();
  // The entries of an operation list in the program's tables: one kernel or collective for each
  // operation, in order.
  struct OperationEntries {
    std::vector<Index> kernels{};  // kNone: the operation is a group operation
    // For each operation: the end of the run of plain kernels that starts with it. A kernel is
    // plain if it is neither the first nor the last of the list, allocates and releases nothing,
    // and has no other effects. Most kernels are plain.
    std::vector<std::size_t> plain_end{};
    std::vector<GroupOperations::Entry> groups{};  // by operation; empty if there are none
    // For each operation: the event that is recorded after the operation and for which the host
    // waits later. Empty if there are no such events.
    std::vector<Index> host_events{};
    // For each operation: the event that is recorded after the operation's kernel and for which
    // another lane waits. Empty if there are no such events.
    std::vector<Index> lane_events{};
    Index LaneEvent(std::size_t operation) const {
      return lane_events.empty() ? program::kNone : lane_events[operation];
    }
    // Returns the event that is recorded after the operation and for which another operation waits.
    Index Done(std::size_t operation) const {
      const Index of_lane = LaneEvent(operation);
      return of_lane != program::kNone ? of_lane : groups[operation].done;
    }
    Index HostEvent(std::size_t operation) const {
      return host_events.empty() ? program::kNone : host_events[operation];
    }
    // The indices of the operations at which the list's turns end (model::TurnEnds).
    std::vector<std::size_t> turn_ends{};
    std::vector<int> unfinished{};  // group operations that nothing in the list waits for
    std::vector<model::ValueUse> unreleased{};      // of communicated values
    std::size_t first_kernel = 0, last_kernel = 0;  // operations on the compute stream
    std::size_t first_beside = 0;  // first kernel of the second lane; past the end: none
  };
  // The entries of a layer work in the program's tables. Layers with the same work run one at a
  // time, so they share buffers that live only during a pass.
  struct Work {
    OperationEntries forward, recompute, backward, backward_input, backward_weight;
    std::vector<Entries>
        recomputed;  // buffers, by position among the checkpoint's layers that have this work
    std::vector<Index> communicated{};
    // Gradients passed from layer to layer. Even layers and odd layers have one buffer each: a
    // layer writes one buffer while it reads the other.
    Index handed_back[2] = {program::kNone, program::kNone};
    Entries forward_transient, backward_transient;  // buffers
    Entries input_transient, weight_transient;      // of the two parts of backward
  };
  // Work that an operation list leaves to the next kernel. That kernel waits for these group
  // operations, and reads the buffers before the buffers are released.
  struct Pending {
    std::vector<Index> events{};
    std::vector<std::pair<Index, model::ValueUse>> buffers{};
  };

  // How much of a pass has been written. The passes of a pair are written alternately, in turns.
  struct PassProgress {
    std::size_t pass = 0;  // index among the stage's passes
    std::int64_t micro_batch = 0;
    Pending pending{};
    bool turned_back = false;      // a backward that has begun
    bool begins_backward = false;  // of the passes of a backward, the first that does work
    int last_layer = 0;            // of a backward
    int word = 0;                  // PassValues::present
  };
  // The operations [begin, end) of a list.
  struct Turn {
    std::size_t begin = 0, end = 0;
  };

  // The reads of a layer's first and last kernels, as ranges of reads_. [first, parameters) are the
  // layer's parameters. For backward, the values that forward and recomputation kept come next,
  // slot by slot. If backward is split, the reads of its weights' part follow, slot by slot: kept
  // values, and values that its inputs' part leaves.
  struct LayerReads {
    std::size_t first = 0, parameters = 0;
    std::size_t activations = 0;  // number per slot, after the parameters
    // `weights` is the index in reads_ of the first read of backward's weights' part. `left` is the
    // number of these reads per slot.
    std::size_t weights = 0, left = 0;
  };

  void AddWork(const model::LayerWork& work, const model::Layer* sample);
  // Returns the buffer that has the value's name. All layers share this buffer.
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
  // Writes the present pass and the next one, a forward and a backward, alternately in turns. One
  // pass computes while the expert all-to-alls of the other are in flight (Megatron-Core,
  // core/models/common/model_chunk_schedule_plan.py).
  void WritePair(ShardingStrategy& strategy);
  // Writes the turns of one layer of each pass, starting with backward's layer. Layers are given by
  // their position in the pass.
  void WriteTurns(ShardingStrategy& strategy, PassProgress& forward, int forward_place,
                  PassProgress& backward, int backward_place);
  // Switches to the other pass of the pair.
  void SwitchTo(PassProgress& from, PassProgress& to);
  void BeginPass(ShardingStrategy& strategy);
  void BeginBackwardPass(ShardingStrategy& strategy);
  void EndPass(ShardingStrategy& strategy);
  // Returns the layer at position `place` of the present pass. A backward begins with the last
  // layer.
  int LayerAt(int place) const {
    return task() == parallel::Task::kForward ? chunk().first_layer + place
                                              : chunk().end_layer - 1 - place;
  }
  int layers_of_pass() const { return chunk().end_layer - chunk().first_layer; }
  // Returns the entries of the operation list that the layer runs in the present pass, without
  // recomputation.
  const OperationEntries& EntriesOf(int layer) const;
  // Returns whether, for some layer of the present pass, an expert all-to-all divides the operation
  // list into turns.
  bool HasTurns() const;
  // Writes one turn of the layer's pass. The first turn includes the work before it, and the last
  // turn includes the work after it.
  void WriteLayer(ShardingStrategy& strategy, int layer, std::size_t turn);
  void WriteLayer(ShardingStrategy& strategy, int layer);  // all turns
  void WriteTurn(ShardingStrategy& strategy, int layer, Turn turn);
  void WriteForward(ShardingStrategy& strategy, int layer, Turn turn);
  void WriteBackward(ShardingStrategy& strategy, int layer, Turn turn);
  void BeginLayerBackward(ShardingStrategy& strategy, int layer);
  void EndLayerBackward(ShardingStrategy& strategy, int layer);
  // Writes the part of backward that computes weight gradients.
  void WriteWeights(ShardingStrategy& strategy, int layer, Turn turn);
  // BeginGradients is called before a backward. BeginContributions is called before a layer's
  // gradient operations, and EndContributions after them.
  void BeginGradients();
  void BeginContributions(int layer);
  void EndContributions();
  // Returns the operation list that the layer's backward runs in the present pass.
  const std::vector<model::Operation>& BackwardOf(int layer) const;
  // Writes the recomputation before the layer's backward. If the layer is the last of its
  // checkpoint, all layers of the checkpoint are recomputed.
  void Recompute(ShardingStrategy& strategy, int layer);
  // Returns the values that the layer recomputes.
  const Entries& Recomputed(int layer) const {
    return entries_[work_of(layer)].recomputed[place_in_checkpoint_[layer]];
  }
  // Writes one turn of an operation list.
  void RunLayer(ShardingStrategy& strategy, ShardingStrategy::Pass pass, int layer,
                const OperationEntries& entries, const std::vector<model::Operation>& operations,
                Turn turn);
  // Returns the first buffer that lives only during the layer's forward or its whole backward.
  // kNone: there is no such buffer, or recomputation owns it.
  Index TemporariesOf(ShardingStrategy::Pass pass, int layer) const;
  // Makes the host wait for the event and then read the values that were copied to the host.
  void AwaitOnHost(Index event);
  // Adds the pending waits and reads to the next kernel.
  void TakePending();
  // Writes the pending waits, then the kernel, then the gradients that the kernel completes.
  void RunKernel(ShardingStrategy& strategy, int layer, const model::Operation& operation,
                 Index kernel);
  OperationEntries AddOperations(const std::vector<model::Operation>& operations, Issuer issuer);
  void AddLane(std::uint8_t lane);  // creates it and its stream if needed
  // Returns the buffer of a layer's value in the present pass.
  Index BufferOf(model::ValueId value, int layer) const;
  // One operation list of a layer, while it is written in the present pass.
  struct ListRun {
    ShardingStrategy& strategy;
    ShardingStrategy::Pass pass;
    int layer;
    const OperationEntries& entries;
    const std::vector<model::Operation>& operations;
    // The kind of list: exactly one member is true, or none in recomputation. `forward`: the
    // layer's forward list. `weights`: backward's weights' part. `backward`: all of backward, or
    // its inputs' part, which passes gradients from the next layer to the previous one.
    bool forward, weights, backward;
    bool begins, ends;  // the list is the first (the last) of the stage's pass
    bool hands_on;      // the list ends with a collective whose result goes to another stage
    Index passing_by;   // TemporariesOf
  };
  void WriteKernel(const ListRun& run, std::size_t i);
  // Adds the layer's parameters and kept values to the next kernel's uses. Called before the list's
  // first and last kernels.
  void UseWhatTheLayerReads(const ListRun& run);
  // Allocates the values whose lifetime starts with the operation. Declares writes of the values
  // that outlive the operation.
  void BeginLives(ShardingStrategy::Pass pass, int layer, const model::Operation& operation);
  // Called for the last kernel before the layer's backward. This kernel writes the gradient that
  // the group operations at the start of backward read.
  void HandBack(int layer);
  // Returns new buffers for received activations, by chunk and slot.
  std::vector<std::vector<Index>> AddInputs();
  // Returns the buffer that the present pass's chunk received. kNone: the chunk is the model's
  // first one.
  Index Received() const;
  // Returns whether another stage sent the activation that the layer keeps.
  bool ReceivesInto(int layer, int activation) const;
  // These functions return properties of the present pass.
  parallel::Task task() const { return stage_.passes()[now_.pass].task; }
  std::size_t chunk_index() const { return messages_.stage().chunk_of[now_.pass]; }
  const PipelineStage::Chunk& chunk() const { return stage_.chunks()[chunk_index()]; }
  int word() const { return static_cast<int>(chunk_index()) * slots_ + slot(); }
  // These functions add uses to the first and last kernels of a pass: reads of the received message
  // and writes of the sent message.
  void BeginForward();
  void BeginBackward();
  void WriteOutput();
  // Writes a kernel that costs nothing and writes the message to send. Does nothing if another
  // kernel writes the message.
  void HandOn(ShardingStrategy& strategy, int layer);
  // Returns the slot of the pass that is being written.
  int slot() const { return slot_of_pass_[now_.pass]; }
  std::size_t At(int slot, int layer) const {
    return static_cast<std::size_t>(slot) * model().layers.size() + static_cast<std::size_t>(layer);
  }
  const Entries& Saved(int slot, int layer) const { return saved_[At(slot, layer)]; }
  // Returns the values that the first part of a split backward leaves for the second part.
  const Entries& Deferred(int slot, int layer) const { return deferred_[At(slot, layer)]; }
  // Returns Deferred() without values from another chunk. Values from another chunk are in the
  // receive buffer or, after the model's last layer, do not exist.
  Entries DeferredHere(int slot, int layer) const;
  // Returns the received gradient that backward's weights' part reads. kNone: no gradient was
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
  Index handing_on_ = program::kNone;  // a kernel for passes that end with a collective
  // `counts_at_host_` is the buffer for counts that kernels copy to the host; `read_counts_` is the
  // host task that reads them. kNone: there are no counts.
  Index counts_at_host_ = program::kNone, read_counts_ = program::kNone;
  std::vector<std::pair<std::string, Index>> registered_;  // persistent buffers by name
  bool communicates_ = false;                              // there is communication inside layers
  std::vector<Work> entries_;                              // by work
  int slots_ = 1;                  // number of micro-batches whose activations are stored at once
  std::vector<int> slot_of_pass_;  // by pass
  std::vector<Entries> saved_;     // buffers by slot and layer
  std::vector<Entries> deferred_;  // buffers by slot and layer
  std::vector<Index> labels_;      // by layer
  // The buffers of untrained parameters, indexed by layer. kNone: the layer has no untrained
  // parameters. Empty: no layer has any.
  std::vector<Index> frozen_;
  std::vector<std::int64_t> first_elements_;  // by tensor
  std::vector<int> layers_of_tensor_;         // number of contributions to each gradient
  std::vector<Index> tied_contribution_;      // buffers by tensor; kNone: not tied
  std::vector<int> missing_;                  // contributions still missing in this micro-batch
  std::vector<bool> contributed_;             // tensors with a contribution in this pass
  std::vector<std::size_t> last_pass_of_tensor_;
  std::vector<bool> ends_micro_batch_;  // by pass
  std::vector<int> ready_;              // tensors completed by the kernel being written
  std::vector<Index> contributions_;    // of the layer being written, to tied tensors
  std::vector<program::BufferUse> reads_;
  std::vector<LayerReads> layer_reads_;              // by layer
  std::vector<std::pair<StreamId, Index>> drained_;  // streams and events, for host_waits
  std::vector<StreamId> lanes_;                      // compute streams
  PassProgress now_;                                 // of the pass being written
  StageMessages messages_;
  PassValues values_;
  ScaleUpdates scales_;
  std::vector<std::vector<Index>> inputs_;  // by chunk and slot; empty for the first chunk
};

}  // namespace stepcast::lowering
