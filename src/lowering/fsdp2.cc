#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/lowering/framework_steps.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/gradients.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/layouts.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/pipeline_stage.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/lowering/units.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::kNone;

class Fsdp2 final : public FrameworkStrategy {
 public:
  explicit Fsdp2(TrainingStep& step)
      : FrameworkStrategy(step),
        groups_{ProcessGroupsOf(step.grids(), step.rank(), model::ParameterGroup::kDense),
                ProcessGroupsOf(step.grids(), step.rank(), model::ParameterGroup::kExperts)},
        has_experts_apart_(plan::HasExpertGroup(plan_)),
        wrapping_(WrappedUnitsOf(step.model(), plan_.data_parallel, step.stage().ChunkBegins())),
        compute_type_(plan::ComputeType(plan_.training.precision)),
        gradients_(step, operations_, compute_type_),
        clipping_(step),
        offload_(step) {}

  // Frozen parameters are sharded and gathered together with trained ones.
  bool keeps_frozen() const override { return true; }

  void WritePrologue() override {
    copy_in_stream_ = builder_.AddStream("all-gather copy-in");
    gather_stream_ = builder_.AddStream("all-gather");
    reduce_stream_ = builder_.AddStream("reduce-scatter");
    for (const model::ParameterGroup group : model::kParameterGroups) {
      const bool experts = group == model::ParameterGroup::kExperts;
      if (experts && !(has_experts_apart_ && HasExperts())) continue;
      const ProcessGroups& ranks = groups_[static_cast<std::size_t>(group)];
      const std::string prefix = experts ? "expert " : "";
      communicators_[static_cast<std::size_t>(group)] = {
          .shard = builder_.AddCommunicator(prefix + ranks.shard_name(), ranks.shard),
          .replica = builder_.AddCommunicator(prefix + "replica", ranks.replica)};
    }
    post_reduce_stream_ = reduce_stream_;
    if (communicators_.front().replica != kNone) {
      post_reduce_stream_ = builder_.AddStream("all-reduce");
    }
    if (const auto* ranks = std::get_if<std::int64_t>(&reshard())) {
      keepers_ = groups_.front().shard.Runs(static_cast<int>(*ranks));
      kept_communicator_ = builder_.AddCommunicator("reshard", keepers_);
    }
    AllocateFrameworkWorkspaces(step_);
    offload_.WritePrologue();
    clipping_.WritePrologue(communicators_.front().shard);
    compute_issued_ = builder_.AddEvent("compute issued");
    copy_in_done_ = builder_.AddEvent("copy-in done");
    gradients_copied_ = builder_.AddEvent("gradients copied in");
    updated_ = builder_.AddEvent("updated");
    std::vector<bool> has_parameters;
    units_ = AddShardedUnits(
        step_, operations_, wrapping_,
        {.meshes = {MeshOf(model::ParameterGroup::kDense), MeshOf(model::ParameterGroup::kExperts)},
         .has_experts_apart = has_experts_apart_,
         .kept_ranks = kept_communicator_ != kNone ? keepers_.size() : 0,
         .accumulates = AccumulatesInReduceType()});
    for (std::size_t unit = 0; unit < wrapping_.units.size(); ++unit) {
      has_parameters.push_back(!units_[unit].empty);
    }
    for (const PipelineStage::Chunk& chunk : step_.stage().chunks()) {
      chunks_.push_back(
          {.order = UnitOrder(wrapping_, has_parameters, chunk.first_layer, chunk.end_layer),
           .end_layer = chunk.end_layer,
           .units = {}});
      for (std::size_t unit = 0; unit < wrapping_.units.size(); ++unit) {
        const int first = units_[unit].first_layer;
        if (first < chunk.first_layer || first >= chunk.end_layer) continue;
        // Modules come before the modules inside them.
        std::vector<int>& units = chunks_.back().units;
        units.insert(units_[unit].root ? units.begin() : units.end(), static_cast<int>(unit));
      }
    }
  }

  // Forward begins with the root's pre-forward: the shards may have been updated on the compute
  // stream.
  void BeginPass() override {
    const parallel::Action& pass = step_.stage().passes()[step_.pass()];
    chunk_ = &chunks_[step_.stage().chunk_of(pass)];
    task_ = pass.task;
    for (const int unit : chunk_->units) {
      ForEachPart(unit, [this](ShardedUnit& part) {
        if (part.unshard_issued) FinishUnshard(part);
      });
    }
    if (task_ != parallel::Task::kForward) return;
    HoldGatherUntilComputed();
    in_backward_ = false;
    if (root() >= 0) Unshard(root());
  }

  // Backward ends with the root's final callback: its own reduction, then the compute stream waits
  // for all.
  void EndPass() override {
    if (task_ == parallel::Task::kForward) {
      if (in_pipeline()) FinishForwardGathers();
      return;
    }
    if (root() >= 0 && parallel::EndsBackward(task_)) PostBackward(root());
    AwaitReductions();
  }

  void WriteParameterPass(const parallel::ParameterPass& pass) override {
    using Kind = parallel::ParameterPass::Kind;
    for (const int unit : chunks_[step_.stage().chunk_at(pass.chunk)].units) {
      ForEachPart(unit, [&](ShardedUnit& part) {
        if (part.empty) return;
        if (pass.kind == Kind::kUnshard) BeginUnshard(part);
        if (pass.kind != Kind::kUnshard) Reshard(part);
        if (pass.kind == Kind::kReduceGradients && part.shard_elements > 0) Reduce(part);
      });
    }
    AwaitReductions();
  }

  void BeforeForward(int layer) override {
    const int unit = wrapping_.of_layer[layer];
    if (unit == root() || layer != units_[unit].first_layer) return;
    if (prefetch() == 0) HoldGatherUntilComputed();
    Unshard(unit);
    if (prefetch() >= 2) {
      PrefetchAfter(unit, +1, prefetch());
    } else if (prefetch() == 1 && has_experts_apart_) {
      PrefetchAfter(unit, +1, 1);
    }
  }

  void AfterForward(int layer) override {
    const int unit = wrapping_.of_layer[layer];
    ShardedUnit& u = units_[unit];
    if (u.root || layer != u.last_layer || ReshardsNever() || !u.unsharded) return;
    if (u.kept) {
      operations_.Allocate(step_.compute(), u.kept);
      builder_.Use(Reads(u.full));
      builder_.Use(Writes(u.kept));
      operations_.Traffic(u.kept.size(), u.kept.size());
      for (const BlockLayout::Block& block : u.kept_blocks.blocks()) {
        const Piece own = u.kept_blocks.Own(block, KeptIndex());
        builder_.With(
            Move(u.kept.At(own.offset), u.full.At(block.full_offset + own.first), own.elements));
      }
      operations_.Run(step_.compute(), "keep_shard");
      builder_.Record(step_.compute(), u.kept_written);
      u.has_kept = true;
    }
    ForEachPart(unit, [this](ShardedUnit& part) { Reshard(part); });
  }

  void BeforeBackward(int layer) override {
    in_backward_ = true;
    const int unit = wrapping_.of_layer[layer];
    if (unit == root()) {
      if (units_[root()].last_layer != layer) return;
      FinishForwardGathers();
      if (prefetch() > 0) PrefetchAfter(root(), -1, 1);
      return;
    }
    if (root() < 0 && layer + 1 == chunk_->end_layer) FinishForwardGathers();
    if (layer != units_[unit].last_layer || !units_[unit].has_backward) return;
    if (prefetch() == 0) HoldGatherUntilComputed();
    Unshard(unit);
    PrefetchAfter(unit, -1, prefetch());
  }

  void AfterBackward(int layer) override {
    if (!parallel::EndsBackward(task_)) return;  // there are no gradients yet
    const int unit = wrapping_.of_layer[layer];
    if (unit != root() && layer == units_[unit].first_layer) PostBackward(unit);
  }

  void AppendParameterReads(int layer, std::vector<BufferUse>& uses) override {
    const ShardedUnit& unit = units_[wrapping_.of_layer[layer]];
    uses.push_back(Reads(unit.full));
    if (unit.experts >= 0) uses.push_back(Reads(units_[unit.experts].full));
  }

  void WriteGradient(int layer, int tensor) override {
    const ShardedUnit& whole = units_[wrapping_.of_layer[layer]];
    const bool of_experts = whole.experts >= 0 &&
                            step_.model().tensors[tensor].group == model::ParameterGroup::kExperts;
    const ShardedUnit& u = of_experts ? units_[whole.experts] : whole;
    program::Elements read = u.full.place;
    for (const BlockLayout::Block& block : u.blocks.blocks()) {
      if (block.tensor == tensor) read = u.full.At(block.full_offset);
    }
    gradients_.Write(tensor, read);
  }

  void GradientReady(int tensor) override { gradients_.Complete(tensor); }

  void WriteUpdate() override {
    if (offload_.parameters()) {
      UpdateOnHost(offload_, units_);
      return;
    }
    if (plan_.training.optimizer_in_backward) return;
    std::vector<ShardedState*> states;
    for (ShardedUnit& u : units_) states.push_back(&u.state);
    std::vector<StreamId> streams = {reduce_stream_};
    if (post_reduce_stream_ != reduce_stream_) streams.push_back(post_reduce_stream_);
    WriteShardedUpdate(step_, states, streams, updated_, clipping_,
                       static_cast<std::int64_t>(step_.model().tensors.size()),
                       {.stream = gather_stream_,
                        .communicator = communicators_.front().shard,
                        .ranks = groups_.front().shard.size()});
  }

 private:
  std::int64_t prefetch() const { return plan_.data_parallel.prefetch; }
  const plan::ReshardAfterForward& reshard() const {
    return plan_.data_parallel.reshard_after_forward;
  }
  bool ReshardsNever() const {
    const bool* value = std::get_if<bool>(&reshard());
    return value && !*value;
  }
  // Whether reduced gradients already have the type in which they are kept.
  bool KeepsReducedType() const {
    return plan_.training.reduce_dtype == plan_.training.parameter_dtype;
  }
  // Whether gradients whose reduction is delayed are kept in the type of the reduction, in buffers
  // of their own.
  bool AccumulatesInReduceType() const {
    return plan_.data_parallel.accumulate_unsharded &&
           (plan_.training.gradient_accumulation > 1 || in_pipeline()) &&
           plan_.training.reduce_dtype != compute_type_;
  }
  // A pipeline's gradients are reduced behind the last micro-batch (WriteParameterPass).
  bool Synchronises() const {
    return !plan_.data_parallel.accumulate_unsharded ||
           (step_.last_micro_batch() && !in_pipeline());
  }
  bool in_pipeline() const { return step_.stage().stages() > 1; }
  int root() const { return chunk_->order.root; }

  std::int64_t KeptIndex() const { return keepers_.Index(step_.rank()); }
  const ProcessGroups& GroupsOf(const ShardedUnit& u) const {
    return groups_[static_cast<std::size_t>(u.group)];
  }
  Fsdp2Shards::Mesh MeshOf(model::ParameterGroup group) const {
    const ProcessGroups& ranks = groups_[static_cast<std::size_t>(group)];
    return {.index = ranks.shard_index(), .ranks = ranks.shard.size()};
  }
  bool HasExperts() const {
    const std::vector<model::Tensor>& tensors = step_.model().tensors;
    return std::any_of(tensors.begin(), tensors.end(), [](const model::Tensor& tensor) {
      return tensor.group == model::ParameterGroup::kExperts;
    });
  }
  // Visits the units that are gathered for a module: its own parameters, and those of its experts,
  // which are sharded over another mesh.
  template <typename Visit>
  void ForEachPart(int unit, const Visit& visit) {
    visit(units_[unit]);
    if (units_[unit].experts >= 0) visit(units_[units_[unit].experts]);
  }
  // Gradients are averaged over the ranks that hold a parameter. Tokens of experts come from all
  // ranks of the stage whose gradients are added up.
  double FactorOf(const ShardedUnit& u) const {
    if (u.group == model::ParameterGroup::kDense) return 1;
    return static_cast<double>(GroupsOf(u).data.size()) /
           static_cast<double>(plan::GradientRanks(plan_));
  }

  // The part of the gather buffer that this rank fills.
  Range Slice(const ShardedUnit& u, bool from_kept) const {
    if (!from_kept) {
      return u.gathered.Share(GroupsOf(u).shard_index(), u.shard_elements + u.frozen.elements);
    }
    return u.gathered.Share(KeptIndex(), u.gathered_elements / keepers_.size());
  }

  // prefetch 0: no gather overlaps compute.
  void HoldGatherUntilComputed() {
    builder_.Record(step_.compute(), compute_issued_);
    builder_.Wait(copy_in_stream_, compute_issued_);
    builder_.Wait(gather_stream_, compute_issued_);
  }

  // Issues the gathers of the next blocks in the direction of the pass.
  void PrefetchAfter(int unit, int direction, std::int64_t count) {
    for (std::int64_t distance = 1; distance <= count; ++distance) {
      const int next = chunk_->order.Later(unit, direction * distance);
      if (next < 0 || (direction < 0 && !units_[next].has_backward)) return;
      ForEachPart(next, [this](ShardedUnit& part) { IssueGather(part); });
    }
  }

  // Copy-in and all-gather.
  void IssueGather(ShardedUnit& u) {
    if (u.unsharded || u.gather_issued || u.empty) return;
    CopyInAndGather(u, copy_in_stream_);
  }

  void CopyInAndGather(ShardedUnit& u, StreamId copy_in) {
    u.gather_issued = true;
    const bool from_kept = u.has_kept;
    const Range& source = from_kept ? u.kept : u.state.parameters;
    const bool from_host = offload_.parameters() && !from_kept;
    if (from_host) {
      operations_.Allocate(copy_in, source);
      builder_.ToDevice(copy_in, source.size(), {Writes(source)});
    }
    if (from_kept) {
      builder_.Wait(copy_in, u.kept_written);
      builder_.Wait(gather_stream_, u.kept_written);
    }
    operations_.Allocate(copy_in, u.gathered);
    const Range slice = Slice(u, from_kept);
    operations_.Reads(source);
    if (!from_kept && u.frozen.elements > 0) operations_.Reads(u.frozen);
    operations_.Writes(slice);
    const BlockLayout& layout = from_kept ? u.kept_blocks : u.gather_blocks;
    for (const BlockLayout::Block& block : layout.blocks()) {
      const Piece own = layout.Own(block, from_kept ? KeptIndex() : GroupsOf(u).shard_index());
      builder_.With(Move(slice.At(own.offset), source.At(own.offset), own.elements));
    }
    operations_.Run(copy_in, "all_gather_copy_in");
    if (from_host) operations_.Release(source);
    builder_.Record(copy_in, copy_in_done_);
    builder_.Wait(gather_stream_, copy_in_done_);
    const Index communicator =
        from_kept ? kept_communicator_ : communicators_[static_cast<std::size_t>(u.group)].shard;
    if (communicator != kNone) {
      operations_.AllGather(gather_stream_, communicator, u.gathered, slice);
    }
    builder_.Record(gather_stream_, u.gather_done);
  }

  // Makes the unit's full parameters available to the compute stream.
  void Unshard(int index) {
    if (units_[index].unsharded || units_[index].empty) return;
    ForEachPart(index, [this](ShardedUnit& part) { IssueGather(part); });
    // Forward: the previous unit's gather result is freed only now, so that its copy-out overlapped
    // the gather just issued.
    if (!in_backward_) FinishForwardGathers();
    ForEachPart(index, [this](ShardedUnit& part) {
      CopyOut(part);
      if (in_backward_) FreeGathered(part);
    });
    if (!in_backward_) deferred_ = index;
  }

  void CopyOut(ShardedUnit& u) {
    builder_.Wait(step_.compute(), u.gather_done);
    operations_.Allocate(step_.compute(), u.full);
    operations_.Reads(u.gathered);
    operations_.Writes(u.full);
    // Parameters gathered from kept shards lie in parts of that size.
    const BlockLayout& layout = u.has_kept ? u.kept_blocks : u.gather_blocks;
    for (const BlockLayout::Block& block : layout.blocks()) {
      builder_.With(
          InBlocks(Move(u.full.At(block.full_offset), u.gathered.At(block.offset), block.elements),
                   block.length, block.length, layout.shard()));
    }
    operations_.Run(step_.compute(), "split_with_sizes_copy");
    builder_.Record(step_.compute(), u.copy_out_done);
    // The copy-out follows the copy-in that read the kept shard.
    if (u.has_kept) {
      operations_.Release(u.kept);
      u.has_kept = false;
    }
    u.unsharded = true;
    u.gather_issued = false;
  }

  // FSDPModule.unshard(async_op=True) and its wait. The copy-in runs on the compute stream, and the
  // gather's result lives until it is copied out.
  void BeginUnshard(ShardedUnit& u) {
    if (u.unsharded || u.gather_issued) return;
    CopyInAndGather(u, step_.compute());
    u.unshard_issued = true;
  }
  void FinishUnshard(ShardedUnit& u) {
    u.unshard_issued = false;
    CopyOut(u);
    FreeGathered(u);
  }

  void FinishForwardGathers() {
    if (deferred_ < 0) return;
    ForEachPart(deferred_, [this](ShardedUnit& part) { FreeGathered(part); });
    deferred_ = -1;
  }

  // The all-gather streams may reuse the buffer once the copy-out has read it.
  void FreeGathered(ShardedUnit& u) {
    builder_.Wait(copy_in_stream_, u.copy_out_done);
    builder_.Wait(gather_stream_, u.copy_out_done);
    operations_.Release(u.gathered);
  }

  void Reshard(ShardedUnit& u) {
    if (!u.unsharded) return;
    operations_.Release(u.full);
    u.unsharded = false;
  }

  void PostBackward(int index) {
    ForEachPart(index, [this](ShardedUnit& part) { PostBackward(part); });
  }

  void PostBackward(ShardedUnit& u) {
    if (u.empty) return;
    if (u.shard_elements == 0) {  // all of it is frozen
      if (!in_pipeline()) Reshard(u);
      return;
    }
    const bool put_off = !Synchronises();
    if (u.accumulated) {
      if (!u.has_accumulated) {
        if (!in_pipeline()) Reshard(u);  // before the upcast, to save memory
        operations_.Allocate(step_.compute(), u.accumulated);
      }
      ReadGradients(u);
      if (u.has_accumulated) {
        operations_.Updates(u.accumulated);
      } else {
        operations_.Writes(u.accumulated);
      }
      for (const BlockLayout::Block& block : u.blocks.blocks()) {
        const program::Effect move = Move(u.accumulated.At(block.exact_offset),
                                          gradients_.place(block.tensor), block.elements);
        builder_.With(u.has_accumulated ? Added(move) : move);
      }
      operations_.Run(step_.compute(),
                      u.has_accumulated ? "accumulate_gradient" : "to_accumulated_gradient");
      u.has_accumulated = true;
      ReleaseGradients(u);
    }
    if (!in_pipeline()) Reshard(u);  // set_reshard_after_backward(False)
    if (put_off) return;
    Reduce(u);
  }

  // Makes the compute stream wait until all gradients are reduced.
  void AwaitReductions() {
    if (last_reduced_ == nullptr) return;
    builder_.Wait(step_.compute(), last_reduced_->post_reduced);
    if (offload_.parameters()) builder_.HostWait(last_reduced_->post_reduced);
    FreeReduceInput();
    if (!held_outputs_.empty()) {
      builder_.Wait(reduce_stream_, last_reduced_->post_reduced);
      for (const Range& output : held_outputs_) operations_.Release(output);
      held_outputs_.clear();
    }
    last_reduced_ = nullptr;
  }

  void ReleaseGradients(const ShardedUnit& u) {
    for (const int tensor : u.tensors) {
      if (gradients_.exists(tensor)) gradients_.Release(tensor);
    }
  }

  void ReadGradients(const ShardedUnit& u) {
    for (const int tensor : u.tensors) {
      if (gradients_.exists(tensor)) operations_.Reads(gradients_.range(tensor));
    }
  }

  // Copies the unit's full gradients into the reduce-scatter's input, one part per rank.
  void CopyToReduceInput(ShardedUnit& u) {
    operations_.Allocate(step_.compute(), u.reduce_input);
    if (u.has_accumulated) {
      operations_.Reads(u.accumulated);
    } else {
      ReadGradients(u);
    }
    operations_.Writes(u.reduce_input);
    for (const BlockLayout::Block& block : u.blocks.blocks()) {
      const program::Elements gradient =
          u.has_accumulated ? u.accumulated.At(block.exact_offset) : gradients_.place(block.tensor);
      builder_.With(InBlocks(
          Scaled(FactorOf(u), Move(u.reduce_input.At(block.offset), gradient, block.elements)),
          block.length, u.shard_elements, block.length));
    }
    operations_.Run(step_.compute(), "chunk_cat");
    if (u.has_accumulated) {
      operations_.Release(u.accumulated);
      u.has_accumulated = false;
    } else {
      ReleaseGradients(u);
    }
  }

  void Reduce(ShardedUnit& u) {
    const Communicators& over = communicators_[static_cast<std::size_t>(u.group)];
    // At most one reduce-scatter input exists.
    FreeReduceInput();
    CopyToReduceInput(u);
    builder_.WaitForStream(reduce_stream_, step_.compute(), gradients_copied_);
    const bool first = !u.state.has_gradient;
    // The first reduction's result is the sharded gradient, unless it must be cast.
    const bool to_host = offload_.parameters();
    const bool direct = (first || to_host) && KeepsReducedType();
    const Range& output = direct ? u.state.gradient : u.reduce_output;
    operations_.Allocate(reduce_stream_, output);
    if (over.shard != kNone) {
      operations_.ReduceScatter(reduce_stream_, over.shard, output, u.reduce_input, true);
    } else {
      // With one rank the input is the output.
      operations_.Copy(reduce_stream_, "copy", output, u.reduce_input);
    }
    builder_.Record(reduce_stream_, u.reduced);
    if (over.replica != kNone) {
      builder_.Wait(post_reduce_stream_, u.reduced);
      operations_.AllReduce(post_reduce_stream_, over.replica, output, true);
    }
    if (!direct) KeepReduced(u, output, first || to_host);
    if (to_host) {
      const Range& gradient = u.state.gradient;
      builder_.ToHost(post_reduce_stream_, gradient.size(), {Reads(gradient)});
      if (!first) offload_.AccumulateOnHost(post_reduce_stream_, u.state.elements);
      if (direct && post_reduce_stream_ != reduce_stream_) {
        held_outputs_.push_back(gradient);
      } else {
        operations_.Release(gradient);
      }
    }
    u.state.has_gradient = true;
    if (plan_.training.optimizer_in_backward) UpdateInBackward(u, direct);
    builder_.Record(post_reduce_stream_, u.post_reduced);
    if (!direct && post_reduce_stream_ == reduce_stream_) {
      operations_.Release(output);
    } else if (!direct) {
      held_outputs_.push_back(output);  // until the all-reduce stream is done with it
    }
    in_flight_ = last_reduced_ = &u;
  }

  // `direct`: the gradient was made on the reduce-scatter's stream.
  void UpdateInBackward(ShardedUnit& u, bool direct) {
    WriteUpdateInBackward(step_, u.state, post_reduce_stream_);
    u.state.has_gradient = false;
    if (direct && post_reduce_stream_ != reduce_stream_) {
      held_outputs_.push_back(u.state.gradient);
    } else {
      operations_.Release(u.state.gradient);
    }
  }

  // Stores the reduced gradient as the sharded gradient, or adds it to that.
  void KeepReduced(const ShardedUnit& u, const Range& reduced, bool first) {
    const Range& gradient = u.state.gradient;
    operations_.Reads(reduced);
    if (first) {
      operations_.Allocate(post_reduce_stream_, gradient);
      operations_.Writes(gradient);
    } else {
      operations_.Updates(gradient);
    }
    for (const Piece& part : u.state.parts) {
      const program::Effect move =
          Move(gradient.At(part.offset), reduced.At(part.offset), part.elements);
      builder_.With(first ? move : Added(move));
    }
    operations_.Run(post_reduce_stream_, first ? "cast_gradient" : "accumulate_gradient");
  }

  // The compute stream waits until the last reduce-scatter has read its input, then frees it.
  void FreeReduceInput() {
    if (in_flight_ == nullptr) return;
    builder_.Wait(step_.compute(), in_flight_->reduced);
    operations_.Release(in_flight_->reduce_input);
    in_flight_ = nullptr;
  }

  const std::array<ProcessGroups, 2> groups_;  // by model::ParameterGroup
  const bool has_experts_apart_;
  const Units wrapping_;
  const DataType compute_type_;  // what is gathered and what kernels read

  StreamId copy_in_stream_ = 0, gather_stream_ = 0, reduce_stream_ = 0, post_reduce_stream_ = 0;
  struct Communicators {
    Index shard = kNone, replica = kNone;
  };
  std::array<Communicators, 2> communicators_{};  // by model::ParameterGroup
  parallel::GroupLayout keepers_;  // reshard_after_forward: k: the ranks that keep a copy
  Index kept_communicator_ = kNone;
  Index compute_issued_ = kNone, copy_in_done_ = kNone, gradients_copied_ = kNone;
  Index updated_ = kNone;
  std::vector<ShardedUnit> units_;  // as wrapping_.units, and behind them those of experts
  LocalGradients gradients_;
  GradientClipping clipping_;
  HostOffload offload_;
  std::vector<Range> held_outputs_;  // reduced shards that the all-reduce stream still uses
  // A chunk of the pipeline stage: a module with its own FSDP root.
  struct Chunk {
    UnitOrder order;
    int end_layer = 0;
    std::vector<int> units;  // the root first
  };
  std::vector<Chunk> chunks_;
  const Chunk* chunk_ = nullptr;  // of the present pass
  parallel::Task task_ = parallel::Task::kForward;
  int deferred_ = -1;                    // forward: the unit whose gather buffer waits to be freed
  ShardedUnit* in_flight_ = nullptr;     // whose reduce-scatter input is held
  ShardedUnit* last_reduced_ = nullptr;  // in this backward
  bool in_backward_ = false;
};

}  // namespace

program::Program LowerFsdp2(const scenario::Scenario& scenario, const LowerOptions& options) {
  return LowerWith<Fsdp2>(scenario, options);
}

}  // namespace stepcast::lowering
