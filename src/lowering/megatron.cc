#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/lowering/framework_steps.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/gradients.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/pipeline_stage.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/lowering/update.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

// With the distributed optimizer, a parameter starts at a multiple of 64 elements, and a bucket
// ends at a multiple of lcm(ranks, 128), so that parts are aligned (param_and_grad_buffer.py).
constexpr std::int64_t kParameterAlignment = 64;
constexpr std::int64_t kBucketAlignment = 128;

// The ranges that belong to a bucket of gradients, all with the same layout.
struct BucketState {
  Range parameters;
  Range optimizer;  // of this rank's shard
  Pieces own;       // what lies in the shard
  Range earlier;    // the shard's gradients of earlier micro-batches, where each one reduces
  Index updated = kNone, gathered = kNone;           // events, distributed optimizer
  bool gather_sent = false, gather_awaited = false;  // in this step
  bool reduced = false;                              // in this step: its reduction is sent off
  std::size_t chunk = 0;                             // of the stage
  model::ParameterGroup group = model::ParameterGroup::kDense;
};

// The gradient that autograd makes for a tensor whose kernel does not add to the main gradient.
struct MadeGradient {
  Range range;
  bool exists = false;  // this micro-batch has contributed to it
};

class Megatron final : public FrameworkStrategy {
 public:
  explicit Megatron(TrainingStep& step)
      : FrameworkStrategy(step),
        groups_{ProcessGroupsOf(step.grids(), step.rank(), model::ParameterGroup::kDense),
                ProcessGroupsOf(step.grids(), step.rank(), model::ParameterGroup::kExperts)},
        has_expert_group_(plan::HasExpertGroup(plan_)),
        distributed_(plan_.data_parallel.zero_stage == 1),
        reduces_each_(!plan_.data_parallel.no_sync && plan_.training.gradient_accumulation > 1),
        gathers_in_forward_(plan_.data_parallel.overlap_param_gather),
        aligns_reductions_(plan_.data_parallel.overlap && plan_.data_parallel.align_grad_reduce &&
                           step.stage().chunks().size() > 1),
        alignment_(MegatronAlignmentOf(step.stage())),
        updates_apart_(plan_.data_parallel.overlap_param_gather_with_optimizer_step &&
                       groups_.front().shard.size() > 1),
        buckets_(step, operations_),
        clipping_(step),
        offload_(step),
        tied_(step),
        dummies_(step, operations_),
        fp32_(plan_.training) {
    fp32_.gradient_dtype = DataType::kFp32;
  }

  void WritePrologue() override {
    channels_ = {AddChannel(model::ParameterGroup::kDense, "")};
    if (HasExperts()) channels_.push_back(AddChannel(model::ParameterGroup::kExperts, "expert "));
    buckets_.SetChannels(channels_);
    tied_.WritePrologue();
    AllocateFrameworkWorkspaces(step_);
    clipping_.WritePrologue(distributed_ ? channels_.front().communicator : kNone);
    AddBuckets();
    AddMadeGradients();
    if (plan_.data_parallel.gradient_accumulation_fusion) dummies_.WritePrologue();
    if (offload_.optimizer()) AddOffload();
    if (builder_.describes_data_flow()) AddStates();
    reached_.assign(step_.model().tensors.size(), false);
  }

  void BeginStep() override {
    for (BucketState& state : states_) {
      // The update of the step before has sent the gather of the first virtual stage's parameters.
      state.gather_sent = GathersInUpdate(state.chunk);
      state.gather_awaited = state.reduced = false;
    }
    buckets_.Zero();
  }

  void BeginPass() override {
    if (!plan_.data_parallel.align_param_gather) return;
    for (const std::size_t chunk : alignment_.gathered_before[step_.pass()]) SendGathers(chunk);
  }

  void EndPass() override {
    if (!aligns_reductions_ || !buckets_.reduces()) return;
    if (const auto chunk = alignment_.reduced_after[step_.pass()]) {
      for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        if (states_[bucket].chunk == *chunk) Reduce(bucket);
      }
    }
  }

  // The hook before a module's forward waits for the module's parameters, then sends the next
  // bucket's gather. Buckets lie in reverse order, so the next bucket is the one before.
  void BeforeForward(int layer) override {
    if (!gathers_in_forward_) return;
    for (const int tensor : step_.model().layers[layer].tensors) {
      const std::size_t bucket = buckets_.bucket_of(tensor);
      if (!IsGathered(bucket)) continue;
      if (std::exchange(states_[bucket].gather_awaited, true)) continue;
      SendGather(bucket);
      builder_.Wait(step_.compute(), states_[bucket].gathered);
      if (plan_.data_parallel.align_param_gather || bucket == 0) continue;
      const BucketState& next = states_[bucket - 1];
      if (next.chunk == states_[bucket].chunk && next.group == states_[bucket].group) {
        SendGather(bucket - 1);
      }
    }
  }

  void WriteGradient(int /*layer*/, int tensor) override {
    MadeGradient& made = made_[tensor];
    Range target = buckets_.Slot(tensor);
    bool add = reached_[tensor];  // else zeros are there
    if (made.range) {
      target = made.range;
      add = std::exchange(made.exists, true);
      if (!add) operations_.Allocate(step_.compute(), made.range);
    } else {
      reached_[tensor] = true;
      dummies_.BeforeGradient(tensor);
    }
    builder_.Use(Writes(target));
    step_.WithGradient(tensor, 0, target.elements, target.place, Parameter(tensor).place, add);
  }

  void GradientReady(int tensor) override {
    if (made_[tensor].range) AddMade(tensor);
    dummies_.GradientReady(tensor);
    if (!(reduces_each_ || step_.completes(tensor)) || !buckets_.reduces()) return;
    const bool full = buckets_.Fill(tensor);
    if (full && OverlapsReduction() && !aligns_reductions_) Reduce(buckets_.bucket_of(tensor));
  }

  void EndBackward() override {
    if (!step_.last_pass() && !reduces_each_) return;
    if (buckets_.reduces()) {
      for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        if (plan_.data_parallel.overlap && !states_[bucket].reduced) Reduce(bucket);
      }
      for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        if (!states_[bucket].reduced) Reduce(bucket);
        buckets_.Await(bucket);
      }
      if (reduces_each_) AddUpMicroBatches();
    }
    if (!step_.last_pass()) return;
    tied_.AddUp(step_.compute(), [this](int tensor) { return buckets_.Slot(tensor).place; });
  }

  void WriteUpdate() override {
    const plan::Training& training = CopiesGradients() ? fp32_ : plan_.training;
    ParameterUpdate all(step_, training), first(step_, training), others(step_, training);
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      elements += buckets_[i].own.elements;
      AddTo(all, i);
      if (updates_apart_) AddTo(states_[i].chunk == 0 ? first : others, i);
    }
    CopyGradients(elements);
    all.Clip(clipping_, static_cast<std::int64_t>(made_.size()), training.gradient_dtype, elements);
    if (offload_.optimizer()) {
      UpdateOnHost();
    } else if (updates_apart_) {
      first.Write(Updated(true, false));
      for (BucketState& state : states_) state.gather_sent = state.chunk != 0;
      SendGathers(0);
      others.Write(Updated(false, true));
    } else {
      all.Write(Updated(true, true));
    }
    if (!distributed_ || gathers_in_forward_) return;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      if (!IsGathered(bucket)) continue;
      SendGather(bucket);
      builder_.Wait(step_.compute(), states_[bucket].gathered);
    }
  }

 private:
  // In a pipeline without virtual stages the first stage alone reduces bucket by bucket during its
  // last backward, and has buckets; the others reduce all they have after theirs
  // (core/pipeline_parallel/schedules.py, core/distributed/distributed_data_parallel.py).
  bool OverlapsReduction() const {
    return plan_.data_parallel.overlap &&
           (step_.stage().stage() == 0 || step_.stage().chunks().size() > 1 ||
            !plan_.data_parallel.align_grad_reduce);
  }

  // After the reductions of one of several micro-batches. All-reduced gradients add up where they
  // are: they hold the mean of the earlier micro-batches, equal on all ranks, and the mean over
  // ranks is the sum of the means. Of reduce-scattered ones only the rank's own part is reduced, so
  // it is kept apart, and the buffers are cleared.
  void AddUpMicroBatches() {
    const bool first = step_.micro_batch() == 0, last = step_.last_pass();
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      states_[bucket].reduced = false;
      const Range& earlier = states_[bucket].earlier;
      if (!earlier) continue;
      const Range& own = buckets_[bucket].own;
      if (last) {
        operations_.Accumulate(step_.compute(), "accumulate_gradient", own, earlier);
      } else {
        operations_.Accumulate(step_.compute(), "accumulate_gradient", earlier, own, !first);
      }
    }
    if (last || !distributed_) return;
    buckets_.Zero();
    reached_.assign(reached_.size(), false);
  }

  // Whether the update sends the gather of this chunk's parameters.
  bool GathersInUpdate(std::size_t chunk) const { return updates_apart_ && chunk == 0; }

  DataType GradientType() const { return plan_.training.gradient_dtype; }
  DataType ParameterType() const { return plan_.training.parameter_dtype; }
  // Experts have their own buffers, buckets and optimizer
  // (core/distributed/distributed_data_parallel.py, core/optimizer/__init__.py), unless they are
  // held by the same ranks as all other parameters.
  model::ParameterGroup GroupOf(int tensor) const {
    return has_expert_group_ ? step_.model().tensors[tensor].group : model::ParameterGroup::kDense;
  }
  bool HasExperts() const {
    for (std::size_t tensor = 0; tensor < step_.model().tensors.size(); ++tensor) {
      if (GroupOf(static_cast<int>(tensor)) == model::ParameterGroup::kExperts) return true;
    }
    return false;
  }
  const ProcessGroups& GroupsOf(model::ParameterGroup group) const {
    return groups_[static_cast<std::size_t>(group)];
  }
  GradientBuckets::Channel AddChannel(model::ParameterGroup group, const std::string& prefix) {
    const ProcessGroups& ranks = GroupsOf(group);
    GradientBuckets::Channel channel{.stream = builder_.AddStream("nccl " + prefix + "data")};
    channel.replica_stream = channel.stream;
    if (!distributed_) {
      channel.communicator = builder_.AddCommunicator(prefix + "data", ranks.data);
      return channel;
    }
    channel.communicator = builder_.AddCommunicator(prefix + ranks.shard_name(), ranks.shard);
    channel.replica_communicator = builder_.AddCommunicator(prefix + "replica", ranks.replica);
    if (channel.replica_communicator != kNone) {
      channel.replica_stream = builder_.AddStream("nccl " + prefix + "replica");
    }
    return channel;
  }
  const GradientBuckets::Channel& ChannelOf(std::size_t bucket) const {
    return channels_[buckets_[bucket].channel];
  }
  // Whether ranks share out the bucket's parameters.
  bool IsGathered(std::size_t bucket) const {
    return distributed_ && ChannelOf(bucket).communicator != kNone;
  }

  std::int64_t ShardRanks(model::ParameterGroup group) const {
    return distributed_ ? static_cast<std::int64_t>(GroupsOf(group).shard.size()) : 1;
  }
  // The index of the part of each bucket of the group that this rank updates.
  std::int64_t OwnIndex(model::ParameterGroup group) const {
    return distributed_ ? GroupsOf(group).shard_index() : 0;
  }
  Range OwnPart(std::size_t bucket, const Range& whole) const {
    return whole.Share(OwnIndex(states_[bucket].group), buckets_[bucket].layout.shard);
  }

  Range Parameter(int tensor) const override {
    return states_[buckets_.bucket_of(tensor)].parameters.Part(buckets_.offset_of(tensor),
                                                               Elements(tensor));
  }

  // Apex's and Transformer Engine's Adam take FP32 gradients of the master weights. Where main
  // gradients have 16 bits, the rank's part of each tensor is copied for the update
  // (core/optimizer/optimizer.py, distrib_optimizer.py: _copy_model_grads_to_main_grads), and the
  // copies are unscaled and clipped. The copies take the memory of former activations, which are
  // larger, and are not counted; values are followed in the main gradients. Other implementations
  // cast by themselves (update.h), and the host casts for its own.
  bool CopiesGradients() const {
    return plan_.data_parallel.copy_main_gradients && GradientType() != DataType::kFp32 &&
           !offload_.optimizer() &&
           plan_.training.optimizer_implementation == plan::OptimizerImplementation::kFused;
  }

  void CopyGradients(std::int64_t elements) {
    if (!CopiesGradients() || elements == 0) return;
    std::vector<program::BufferUse> uses;
    for (const GradientBucket& bucket : buckets_.all()) uses.push_back(Reads(bucket.own));
    builder_.Run(step_.compute(),
                 builder_.AddKernel(MemoryKernel("copy_gradients", DataType::kFp32,
                                                 BytesOf(elements, GradientType()),
                                                 BytesOf(elements, DataType::kFp32))),
                 uses);
  }

  // Adds the bucket's own part to `update`.
  void AddTo(ParameterUpdate& update, std::size_t index) {
    const GradientBucket& bucket = buckets_[index];
    const BucketState& state = states_[index];
    update.ReadsGradients(bucket.gradients);
    if (!offload_.optimizer()) update.WritesState(state.optimizer);
    update.WritesState(state.parameters);
    const Range parameters = OwnPart(index, state.parameters);
    for (const Piece& piece : state.own) {
      update.Updates(parameters.At(piece.offset), bucket.own.At(piece.offset),
                     state.optimizer.At(piece.offset), bucket.own.elements, piece.elements,
                     tied_.Counts(piece.tensor), state.group);
    }
  }

  // Tensors in reverse registration order. A bucket is closed once it holds its size, and at the
  // first tensor of a chunk. With the distributed optimizer each embedding that stages share has a
  // bucket of its own, so that its ranks have the same parts of it on all stages.
  void AddBuckets() {
    order_.resize(step_.model().tensors.size());
    std::iota(order_.rbegin(), order_.rend(), 0);
    std::stable_partition(order_.begin(), order_.end(), [this](int tensor) {
      return GroupOf(tensor) == model::ParameterGroup::kDense;
    });
    const bool cut = OverlapsReduction() && step_.stage().stage() == 0 && !updates_apart_ &&
                     plan_.data_parallel.bucket_size.has_value();
    const std::int64_t size =
        cut ? plan_.data_parallel.bucket_size->count() / SizeOf(GradientType())
            : std::numeric_limits<std::int64_t>::max();
    const std::vector<std::size_t> chunks = ChunksOfTensors();
    FlatLayout open;
    std::size_t first = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::size_t chunk = chunks[order_[i]];
      const model::ParameterGroup group = GroupOf(order_[i]);
      const bool ends = i + 1 == order_.size() || chunks[order_[i + 1]] != chunk ||
                        GroupOf(order_[i + 1]) != group ||
                        (distributed_ && (tied_.Has(order_[i]) || tied_.Has(order_[i + 1])));
      const std::int64_t limit = chunk == 0 ? size : std::numeric_limits<std::int64_t>::max();
      open.Append(order_[i], Elements(order_[i]), distributed_ ? kParameterAlignment : 1);
      if (open.elements < limit && !ends) continue;
      const std::int64_t ranks = ShardRanks(group);
      open.Cut(ranks, distributed_ ? std::lcm(ranks, kBucketAlignment) : std::int64_t{1});
      AddBucket(std::span(order_).subspan(first, i + 1 - first), std::exchange(open, FlatLayout()),
                group);
      states_.back().chunk = chunk;
      first = i + 1;
    }
  }

  // [tensor] the first chunk of the stage that has it.
  std::vector<std::size_t> ChunksOfTensors() const {
    std::vector<std::size_t> chunks(step_.model().tensors.size(), 0);
    for (std::size_t chunk = step_.stage().chunks().size(); chunk-- > 0;) {
      const PipelineStage::Chunk& layers = step_.stage().chunks()[chunk];
      for (int layer = layers.first_layer; layer < layers.end_layer; ++layer) {
        for (const int tensor : step_.model().layers[layer].tensors) chunks[tensor] = chunk;
      }
    }
    return chunks;
  }

  void AddBucket(std::span<const int> tensors, FlatLayout layout, model::ParameterGroup group) {
    const GradientBucket& bucket =
        buckets_.Add(tensors, std::move(layout), "/main gradients", GradientType(), OwnIndex(group),
                     group == model::ParameterGroup::kExperts ? 1 : 0);
    const FlatLayout& laid = bucket.layout;
    BucketState& state = states_.emplace_back();
    state.group = group;
    state.own = PartsOf(laid, OwnIndex(group));
    state.parameters =
        operations_.AddRange(builder_.Named(bucket.name, "/parameters"), laid.padded(),
                             ParameterType(), Category::kParameter, laid.exact);
    state.optimizer =
        AddOptimizerStates(step_, operations_, builder_.Named(bucket.name, "/optimizer"),
                           {laid.shard, laid.exact, laid.ranks}, UpdatedOf(state.own));
    operations_.Allocate(step_.compute(), state.parameters);
    operations_.Allocate(step_.compute(), bucket.gradients);
    if (!offload_.optimizer()) operations_.Allocate(step_.compute(), state.optimizer);
    if (distributed_ && reduces_each_ && buckets_.reduces()) {
      state.earlier =
          operations_.AddShard(builder_.Named(bucket.name, "/earlier gradients"), laid.shard,
                               GradientType(), Category::kGradient, laid.exact, laid.ranks);
      operations_.Allocate(step_.compute(), state.earlier);
    }
    if (!IsGathered(buckets_.size() - 1)) return;
    state.updated = builder_.AddEvent(builder_.Named(bucket.name, " updated"));
    state.gathered = builder_.AddEvent(builder_.Named(bucket.name, " gathered"));
  }

  static std::vector<UpdatedTensor> UpdatedOf(const Pieces& pieces) {
    std::vector<UpdatedTensor> tensors;
    for (const Piece& piece : pieces) {
      tensors.push_back({.tensor = piece.tensor, .elements = piece.elements});
    }
    return tensors;
  }

  // The unit of an update on the host: this rank's part of a bucket, or of one tensor in it.
  struct HostUpdate {
    std::size_t bucket = 0;
    std::int64_t elements = 0;
    Index arrived = kNone;  // event: its gradients are there
  };

  void AddOffload() {
    offload_.WritePrologue();
    const bool overlap = plan_.data_parallel.overlap_cpu_optimizer_d2h_h2d;
    to_host_ = overlap ? builder_.AddStream("optimizer to host") : step_.compute();
    to_device_ = overlap ? builder_.AddStream("optimizer to device") : step_.compute();
    final_gradients_ = builder_.AddEvent("gradients final");
    returned_ = builder_.AddEvent("parameters back");
    std::vector<const FlatLayout*> layouts;
    for (const GradientBucket& bucket : buckets_.all()) layouts.push_back(&bucket.layout);
    const std::vector<std::int64_t> fullest = FullestRanks(layouts);
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      HostUpdate whole{.bucket = i};
      for (const Piece& piece : PartsOf(*layouts[i], fullest[i])) {
        whole.elements += piece.elements;
        if (overlap) host_updates_.push_back({.bucket = i, .elements = piece.elements});
      }
      if (!overlap) host_updates_.push_back(whole);
    }
    for (std::size_t i = 0; i < host_updates_.size(); ++i) {
      host_updates_[i].arrived = builder_.AddEvent(
          {.first = builder_.AddNumbered("gradients at the host ", static_cast<std::int64_t>(i))});
    }
  }

  void UpdateOnHost() {
    const bool overlap = plan_.data_parallel.overlap_cpu_optimizer_d2h_h2d;
    if (overlap) builder_.WaitForStream(to_host_, step_.compute(), final_gradients_);
    std::int64_t elements = 0;
    for (const HostUpdate& update : host_updates_) {
      elements += update.elements;
      builder_.ToHost(to_host_, BytesOf(update.elements, DataType::kFp32),
                      {Reads(buckets_[update.bucket].own)});
      builder_.Record(to_host_, update.arrived);
    }
    if (!overlap && !host_updates_.empty()) {
      builder_.HostWait(host_updates_.back().arrived);
      offload_.UpdateOnHost(elements);
    }
    for (const HostUpdate& update : host_updates_) {
      if (overlap) {
        builder_.HostWait(update.arrived);
        offload_.UpdateOnHost(update.elements);
      }
      const Range own = OwnPart(update.bucket, states_[update.bucket].parameters);
      builder_.ToDevice(to_device_, BytesOf(update.elements, ParameterType()), {Writes(own)});
    }
    if (overlap) builder_.WaitForStream(step_.compute(), to_device_, returned_);
  }

  // Gradients of linear layers' weights are fused into main gradients, unless
  // gradient_accumulation_fusion is off. The times of a layer list already include this.
  void AddMadeGradients() {
    const model::Model& model = step_.model();
    made_.resize(model.tensors.size());
    if (model.is_layer_list()) return;
    std::vector<bool> multiplied(model.tensors.size(), false);
    for (const model::Layer& layer : model.layers) {
      if (!plan_.data_parallel.gradient_accumulation_fusion) break;
      if (layer.kind == model::LayerKind::kEmbedding) continue;
      for (const int tensor : layer.tensors) {
        if (model.tensors[tensor].shape.size() > 1) multiplied[tensor] = true;
      }
    }
    for (std::size_t t = 0; t < made_.size(); ++t) {
      if (multiplied[t]) continue;
      made_[t].range =
          operations_.AddRange(builder_.Named(model.tensors[t].name, ".grad"),
                               model.tensors[t].elements, ParameterType(), Category::kGradient);
    }
  }

  // The hook of a gradient that autograd made: adds it to the main gradient and frees it.
  void AddMade(int tensor) {
    MadeGradient& made = made_[tensor];
    operations_.Accumulate(step_.compute(), "add_to_main_gradient", buckets_.Slot(tensor),
                           made.range, reached_[tensor]);
    reached_[tensor] = true;
    operations_.Release(made.range);
    made.exists = false;
  }

  void Reduce(std::size_t index) {
    states_[index].reduced = true;
    const GradientBucket& bucket = buckets_[index];
    // Padding between the tensors is not scaled.
    operations_.Updates(bucket.gradients);
    if (builder_.describes_data_flow()) {
      builder_.With(MovesOf(bucket.layout.tensors, bucket.gradients.place, bucket.gradients.place,
                            1.0 / static_cast<double>(plan::GradientRanks(plan_))));
    }
    operations_.Run(step_.compute(), "scale_gradients");
    buckets_.Ready(index);
    buckets_.Reduce(index);
  }

  // In the order of use, which is the reverse of the buckets' order.
  void SendGathers(std::size_t chunk) {
    for (std::size_t bucket = buckets_.size(); bucket-- > 0;) {
      if (states_[bucket].chunk == chunk && IsGathered(bucket)) SendGather(bucket);
    }
  }

  void SendGather(std::size_t index) {
    BucketState& state = states_[index];
    if (std::exchange(state.gather_sent, true)) return;
    const GradientBuckets::Channel& channel = ChannelOf(index);
    builder_.WaitForStream(channel.stream, step_.compute(), state.updated);
    operations_.AllGather(channel.stream, channel.communicator, state.parameters,
                          OwnPart(index, state.parameters));
    builder_.Record(channel.stream, state.gathered);
  }

  // The parts of parameters in a rank's part of the buckets, for the rank with the most of them,
  // which the others wait for. Counts buckets of the first chunk, of the other chunks, or of both.
  UpdatedTensors Updated(bool of_first, bool of_others) const {
    std::vector<const FlatLayout*> layouts;
    UpdatedTensors updated;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (!(states_[i].chunk == 0 ? of_first : of_others)) continue;
      layouts.push_back(&buckets_[i].layout);
      updated.elements += buckets_[i].own.elements;
    }
    const std::vector<std::int64_t> fullest = FullestRanks(layouts);
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const std::vector<UpdatedTensor> own = UpdatedOf(PartsOf(*layouts[i], fullest[i]));
      updated.tensors.insert(updated.tensors.end(), own.begin(), own.end());
    }
    std::sort(updated.tensors.begin(), updated.tensors.end(),
              [](const UpdatedTensor& a, const UpdatedTensor& b) { return a.tensor < b.tensor; });
    return updated;
  }

  // Between steps, parameters that the next forward gathers are up to date only in the rank's own
  // part.
  void AddStates() {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const GradientBucket& bucket = buckets_[i];
      const BucketState& state = states_[i];
      const Range parameters = OwnPart(i, state.parameters);
      const bool whole = !gathers_in_forward_ || GathersInUpdate(state.chunk);
      for (std::size_t t = 0; whole && t < bucket.tensors.size(); ++t) {
        const int tensor = bucket.tensors[t];
        AddParameterState(step_, Parameter(tensor).place, step_.first_element(tensor),
                          Elements(tensor));
      }
      for (const Piece& piece : state.own) {
        const std::int64_t element = step_.first_element(piece.tensor) + piece.first;
        if (!whole) {
          AddParameterState(step_, parameters.At(piece.offset), element, piece.elements);
        }
        AddOptimizerState(step_, state.optimizer.At(piece.offset), bucket.own.elements, element,
                          piece.elements);
      }
    }
  }

  const std::array<ProcessGroups, 2> groups_;  // by model::ParameterGroup
  const bool has_expert_group_;
  const bool distributed_;
  const bool reduces_each_;  // every one of several micro-batches
  const bool gathers_in_forward_;
  const bool aligns_reductions_;
  const MegatronAlignment alignment_;
  // Whether the optimizer updates the first chunk separately from the others.
  const bool updates_apart_;
  std::vector<GradientBuckets::Channel> channels_;  // of dense tensors, and of experts
  std::vector<int> order_;                          // of the tensors in buckets
  GradientBuckets buckets_;                         // in launch order
  std::vector<BucketState> states_;                 // by bucket
  std::vector<MadeGradient> made_;                  // by tensor
  std::vector<bool> reached_;  // by tensor: something of this step is in the main gradient
  GradientClipping clipping_;
  HostOffload offload_;
  StreamId to_host_ = 0, to_device_ = 0;
  Index final_gradients_ = kNone, returned_ = kNone;  // events
  std::vector<HostUpdate> host_updates_;
  TiedGradients tied_;
  DummyGradients dummies_;
  plan::Training fp32_;  // the plan's, with gradients in FP32
};

}  // namespace

program::Program LowerMegatron(const scenario::Scenario& scenario, const LowerOptions& options) {
  return LowerWith<Megatron>(scenario, options);
}

}  // namespace stepcast::lowering
