#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/lowering/autocast.h"
#include "src/lowering/framework_steps.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/gradients.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/layouts.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/rate_limiter.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/lowering/units.h"

namespace stepcast::lowering {
namespace {

using plan::BackwardPrefetch;
using program::BufferUse;
using program::Category;
using program::kNone;

// Alignment of flat parameters in bytes (torch/distributed/fsdp/_flat_param.py).
constexpr std::int64_t kAlignment = 16;

// The untrained parameters of a unit, in a flat parameter of their own. They are gathered and freed
// with the trained ones and have no gradients.
struct FrozenFlat {
  Range shard;
  Range low_precision;  // the shard in the type that is gathered, until that has been done
  Range full;
};

// A module wrapped in FullyShardedDataParallel.
struct FlatUnit {
  std::vector<int> tensors;
  FlatLayout flat;
  ShardedState state;
  // Parameters.
  Range low_precision;      // the shard in the compute type, until it has been gathered
  Range full;               // as the kernels read them
  Index gathered = kNone;   // event
  bool unsharded = false;   // the full parameters exist
  bool prefetched = false;  // has been asked for before its turn
  // Gradients.
  Range gradient, next_gradient;  // full and flat, in the compute type
  Range cast, padded;             // full, in reduce_dtype
  Range reduced;                  // shard, in reduce_dtype
  Range contribution;             // shard in the parameters' type, about to be accumulated
  bool has_gradient = false;      // the full one
  FrozenFlat frozen;

  bool trains() const { return flat.elements > 0; }
  bool empty() const { return !trains() && !frozen.full; }
};

// A communicator and, before torch 2.8, the stream of its process group.
struct Channel {
  Index communicator = kNone;
  std::optional<StreamId> own_stream;
  Index issued = kNone, done = kNone;  // events
};

class Fsdp1 final : public FrameworkStrategy {
 public:
  explicit Fsdp1(TrainingStep& step)
      : FrameworkStrategy(step),
        groups_(ProcessGroupsOf(step.grids(), step.rank())),
        wrapping_(WrappedUnitsOf(step.model(), plan_.data_parallel)),
        gathered_type_(plan_.training.autocast ? plan_.training.parameter_dtype
                                               : plan::ComputeType(plan_.training.precision)),
        autocast_(step, operations_),
        gradients_(step, operations_, gathered_type_),
        clipping_(step),
        offload_(step) {}

  void WritePrologue() override {
    pre_unshard_stream_ = builder_.AddStream("pre-unshard");
    unshard_stream_ = builder_.AddStream("unshard");
    post_backward_stream_ = builder_.AddStream("post-backward");
    shard_channel_ = AddChannel(groups_.shard_name(), groups_.shard);
    replica_channel_ = AddChannel("replica", groups_.replica);
    final_stream_ = post_backward_stream_;
    if (replica_channel_.communicator != kNone && plan_.software.torch >= Version{2, 1}) {
      final_stream_ = builder_.AddStream("all-reduce");
    }
    AllocateFrameworkWorkspaces(step_);
    offload_.WritePrologue();
    autocast_.AddLayers();
    clipping_.WritePrologue(shard_channel_.communicator);
    compute_issued_ = builder_.AddEvent("compute issued");
    shard_cast_ = builder_.AddEvent("shard cast");
    gradients_joined_ = builder_.AddEvent("gradients joined");
    reduce_scattered_ = builder_.AddEvent("reduce-scattered");
    reduced_ = builder_.AddEvent("gradients reduced");
    updated_ = builder_.AddEvent("updated");
    units_.reserve(wrapping_.units.size());
    std::vector<bool> has_parameters;
    for (const Unit& unit : wrapping_.units) {
      AddUnit(unit);
      has_parameters.push_back(!units_.back().empty());
    }
    order_ = UnitOrder(wrapping_, has_parameters);
    if (plan_.data_parallel.limit_all_gathers) limiter_.emplace(builder_, step_.compute());
  }

  // The root's pre-forward: the shards may have been updated on the compute stream.
  void BeginForward() override {
    builder_.Record(step_.compute(), compute_issued_);
    builder_.Wait(unshard_stream_, compute_issued_);
    builder_.Wait(pre_unshard_stream_, compute_issued_);
    backward_begun_ = false;
    for (FlatUnit& u : units_) u.prefetched = false;
    if (order_.root >= 0) PreForward(order_.root);
  }

  void BeforeForward(int layer) override {
    const int unit = wrapping_.of_layer[layer];
    if (unit != order_.root && layer == First(unit)) PreForward(unit);
    autocast_.BeforeForward(layer, [&](int tensor) { return ParameterOf(units_[unit], tensor); });
  }
  bool keeps_frozen() const override { return true; }

  void AfterForward(int layer) override {
    const int unit = wrapping_.of_layer[layer];
    if (unit == order_.root || layer != Last(unit)) return;
    if (ReshardsAfterForward()) Reshard(units_[unit]);
  }

  void BeforeBackward(int layer) override {
    if (!backward_begun_) {
      backward_begun_ = true;
      if (order_.root >= 0) PreBackward(order_.root);
    }
    const int unit = wrapping_.of_layer[layer];
    if (unit != order_.root && layer == Last(unit)) PreBackward(unit);
  }

  void AfterBackward(int layer) override {
    autocast_.AfterBackward(layer);
    const int unit = wrapping_.of_layer[layer];
    if (unit != order_.root && layer == First(unit)) PostBackward(unit);
  }

  // The root's own post-backward, then its final callback.
  void EndBackward() override {
    if (order_.root >= 0) PostBackward(order_.root);
    if (!Synchronises()) return;
    builder_.WaitForStream(step_.compute(), post_backward_stream_, reduced_);
    if (final_stream_ != post_backward_stream_) {
      builder_.WaitForStream(step_.compute(), final_stream_, reduced_);
    }
    if (!offload_.parameters()) return;
    builder_.Record(step_.compute(), compute_issued_);
    builder_.HostWait(compute_issued_);
  }

  void AppendParameterReads(int layer, std::vector<BufferUse>& uses) override {
    const FlatUnit& u = units_[wrapping_.of_layer[layer]];
    if (u.trains()) uses.push_back(Reads(u.full));
    if (u.frozen.full) uses.push_back(Reads(u.frozen.full));
  }

  void WriteGradient(int layer, int tensor) override {
    const FlatUnit& u = units_[wrapping_.of_layer[layer]];
    gradients_.Write(tensor, autocast_.ReadPlace(layer, tensor, ParameterOf(u, tensor).place));
  }

  void GradientReady(int tensor) override {
    autocast_.CastGradient(tensor, gradients_.range(tensor));
  }

  void WriteUpdate() override {
    if (offload_.parameters()) {
      UpdateOnHost(offload_, units_);
      if (limiter_) limiter_->Finish();
      return;
    }
    const std::int64_t tensors = FindUpdatedTensors();
    std::vector<ShardedState*> states;
    for (FlatUnit& u : units_) states.push_back(&u.state);
    std::vector<StreamId> streams = {post_backward_stream_};
    if (final_stream_ != post_backward_stream_) streams.push_back(final_stream_);
    WriteShardedUpdate(step_, states, streams, updated_, clipping_, tensors);
    if (limiter_) limiter_->Finish();
  }

 private:
  // The range in which kernels read a tensor; the beginning of the unit if another unit owns a tied
  // tensor.
  static Range ParameterOf(const FlatUnit& u, int tensor) {
    for (const Piece& part : u.flat.tensors) {
      if (part.tensor == tensor) return u.full.Part(part.offset, part.elements);
    }
    return u.full;
  }

  // The tensors that the optimizer has of a unit: its flat parameter, or the original tensors as
  // far as they lie in a rank's part. The latter differ by rank.
  std::vector<UpdatedTensor> UpdatedOf(const FlatLayout& flat, bool root,
                                       std::int64_t index) const {
    std::vector<UpdatedTensor> updated;
    if (flat.elements == 0) return updated;
    if (plan_.data_parallel.use_orig_params) {
      for (const Piece& part : PartsOf(flat, index)) {
        updated.push_back({.tensor = part.tensor, .elements = part.elements});
      }
    } else {
      // The root's flat parameter is registered before those of the modules in it.
      updated.push_back(
          {.tensor = root ? -1 : flat.tensors.front().tensor, .elements = flat.shard});
    }
    return updated;
  }
  // Describes the update of the rank with the most tensors, for which the others wait. Returns the
  // number of its tensors.
  std::int64_t FindUpdatedTensors() {
    std::vector<const FlatLayout*> flat;
    for (const FlatUnit& u : units_) flat.push_back(&u.flat);
    const std::int64_t fullest = plan_.data_parallel.use_orig_params ? FullestRank(flat) : 0;
    std::int64_t tensors = 0;
    for (FlatUnit& u : units_) {
      u.state.updated = u.trains() ? UpdatedOf(u.flat, &u - units_.data() == order_.root, fullest)
                                   : std::vector<UpdatedTensor>();
      tensors += static_cast<std::int64_t>(u.state.updated.size());
    }
    return tensors;
  }
  // Layers of a unit.
  int First(int unit) const { return wrapping_.units[unit].layers.front(); }
  int Last(int unit) const { return wrapping_.units[unit].layers.back(); }
  bool ReshardsAfterForward() const { return plan_.data_parallel.zero_stage == 3; }
  bool Synchronises() const {
    return !plan_.data_parallel.accumulate_unsharded || step_.last_micro_batch();
  }
  DataType reduce_type() const { return plan_.training.reduce_dtype; }
  std::int64_t ranks() const { return groups_.shard.size(); }

  Channel AddChannel(const char* name, const parallel::GroupLayout& layout) {
    Channel channel;
    channel.communicator = builder_.AddCommunicator(name, layout);
    if (channel.communicator == kNone || plan_.software.torch >= Version{2, 8}) return channel;
    channel.own_stream = builder_.AddStream(std::string("nccl ") + name);
    channel.issued = builder_.AddEvent(std::string("nccl ") + name + " issued");
    channel.done = builder_.AddEvent(std::string("nccl ") + name + " done");
    return channel;
  }

  // Begins a collective that is ordered after `stream`. Returns the stream on which it runs;
  // EndCollective orders later work after it.
  StreamId BeginCollective(const Channel& channel, StreamId stream) {
    if (!channel.own_stream) return stream;
    builder_.WaitForStream(*channel.own_stream, stream, channel.issued);
    return *channel.own_stream;
  }
  void EndCollective(const Channel& channel, StreamId stream, std::initializer_list<Range> used) {
    if (!channel.own_stream) return;
    for (const Range& range : used) builder_.RecordStream(*channel.own_stream, range.buffer());
    builder_.WaitForStream(stream, *channel.own_stream, channel.done);
  }

  void AddUnit(const Unit& unit) {
    const Index name = builder_.AddText(unit.name);
    FlatUnit& u = units_.emplace_back();
    u.tensors = unit.tensors;
    const bool aligned =
        plan_.data_parallel.use_orig_params && plan_.software.torch >= Version{2, 1};
    u.flat = Flatten(step_.model(), unit.tensors, ranks(),
                     aligned ? kAlignment / SizeOf(gathered_type_) : 0);
    const FlatLayout& flat = u.flat;
    const FlatLayout* const own = &flat;
    const std::int64_t fullest =
        plan_.data_parallel.use_orig_params ? FullestRank(std::span(&own, 1)) : 0;
    u.state = AddShardedState(
        step_, operations_, name, flat.shard, flat.exact, ranks(),
        builder_.describes_data_flow() ? PartsOf(flat, groups_.shard_index()) : Pieces(),
        UpdatedOf(flat, false, fullest));
    u.gathered = builder_.AddEvent(builder_.Named(name, " gathered"));
    const auto whole = [&](const char* what, std::int64_t elements, DataType type) {
      return operations_.AddRange(builder_.Named(name, what), elements, type, Category::kGradient,
                                  flat.exact);
    };
    const auto shard = [&](const char* what, DataType type, Category category) {
      return operations_.AddRange(builder_.Named(name, what), flat.shard, type, category,
                                  flat.exact / ranks());
    };
    u.full = operations_.AddRange(builder_.Named(name, "/flat parameter"), flat.padded(),
                                  gathered_type_, Category::kCommunication, flat.exact);
    const DataType kept = plan_.training.parameter_dtype;
    if (shard_channel_.communicator != kNone && kept != gathered_type_) {
      u.low_precision = shard("/low-precision shard", gathered_type_, Category::kCommunication);
    }
    u.gradient = whole("/flat gradient", flat.elements, gathered_type_);
    const bool several = plan_.training.gradient_accumulation > 1;
    if (plan_.data_parallel.accumulate_unsharded && several) {
      u.next_gradient = whole("/flat gradient (next)", flat.elements, gathered_type_);
    }
    if (reduce_type() != gathered_type_) {
      u.cast = whole("/cast gradient", flat.elements, reduce_type());
    }
    if (flat.padded() > flat.elements) {
      u.padded = whole("/padded gradient", flat.padded(), reduce_type());
    }
    if (reduce_type() != kept) {
      u.reduced = shard("/reduced gradient", reduce_type(), Category::kGradient);
    }
    if (several) u.contribution = shard("/gradient shard (next)", kept, Category::kGradient);
    if (!unit.frozen.empty()) AddFrozen(unit, name, u.frozen);
  }

  void AddFrozen(const Unit& unit, Index name, FrozenFlat& frozen) {
    const model::Model& model = step_.model();
    std::int64_t elements = 0;
    for (const int t : unit.frozen) elements += model.frozen[static_cast<std::size_t>(t)].elements;
    const std::int64_t shard = (elements + ranks() - 1) / ranks();
    const DataType kept = model::FrozenType(model, unit.frozen.front());
    const DataType gathered = plan_.training.autocast ? kept : gathered_type_;
    const auto range = [&](const char* what, std::int64_t count, DataType type, Category category,
                           std::int64_t exact) {
      return operations_.AddRange(builder_.Named(name, what), count, type, category, exact);
    };
    frozen.shard = range("/frozen shard", shard, kept, Category::kParameter, elements / ranks());
    operations_.Allocate(step_.compute(), frozen.shard);
    if (kept != gathered) {
      frozen.low_precision = range("/frozen low-precision shard", shard, gathered,
                                   Category::kCommunication, elements / ranks());
    }
    frozen.full = range("/frozen flat parameter", shard * ranks(), gathered,
                        Category::kCommunication, elements);
  }

  // The unit that is gathered next; null after the last.
  FlatUnit* Next(int unit, bool backward) {
    const int next = order_.Later(unit, backward ? -1 : 1);
    return next >= 0 ? &units_[next] : nullptr;
  }

  void Prefetch(FlatUnit* u) {
    if (u == nullptr || u->prefetched) return;
    Unshard(*u);
    u->prefetched = true;
  }

  void PreForward(int unit) {
    FlatUnit& u = units_[unit];
    if (u.empty()) return;
    if (!u.prefetched) Unshard(u);
    builder_.Wait(step_.compute(), u.gathered);
    if (plan_.data_parallel.forward_prefetch) Prefetch(Next(unit, false));
  }

  void PreBackward(int unit) {
    FlatUnit& u = units_[unit];
    if (u.empty()) return;
    if (!u.prefetched) Unshard(u);
    builder_.Wait(step_.compute(), u.gathered);
    if (plan_.data_parallel.backward_prefetch == BackwardPrefetch::kPre) {
      Prefetch(Next(unit, true));
    }
  }

  void Unshard(FlatUnit& u) {
    const bool casts = !u.unsharded && u.trains() && u.low_precision;
    const bool from_host = offload_.parameters() && !u.unsharded && u.trains();
    if (from_host) {
      operations_.Allocate(pre_unshard_stream_, u.state.parameters);
      builder_.ToDevice(pre_unshard_stream_, u.state.parameters.size(),
                        {Writes(u.state.parameters)});
    }
    if (casts) {
      operations_.Allocate(pre_unshard_stream_, u.low_precision);
      operations_.Copy(pre_unshard_stream_, "cast_shard", u.low_precision, u.state.parameters);
      if (from_host) operations_.Release(u.state.parameters);
    }
    const bool casts_frozen = !u.unsharded && u.frozen.low_precision;
    if (casts_frozen) {
      operations_.Allocate(pre_unshard_stream_, u.frozen.low_precision);
      operations_.Copy(pre_unshard_stream_, "cast_shard", u.frozen.low_precision, u.frozen.shard);
    }
    if (casts || casts_frozen || from_host) {
      builder_.WaitForStream(unshard_stream_, pre_unshard_stream_, shard_cast_);
    }
    if (limiter_) limiter_->Gather();
    if (u.unsharded) return;
    if (u.trains()) {
      Gather(u.full, casts ? u.low_precision : u.state.parameters, casts || from_host);
    }
    if (u.frozen.full) {
      Gather(u.frozen.full, casts_frozen ? u.frozen.low_precision : u.frozen.shard, casts_frozen);
    }
    builder_.Record(unshard_stream_, u.gathered);
    u.unsharded = true;
  }

  // `passing`: the shard exists only for this gather.
  void Gather(const Range& full, const Range& shard, bool passing) {
    operations_.Allocate(unshard_stream_, full);
    if (shard_channel_.communicator == kNone) {
      operations_.Copy(unshard_stream_, "copy_shard", full, shard);
    } else {
      operations_.AllGather(BeginCollective(shard_channel_, unshard_stream_),
                            shard_channel_.communicator, full, shard);
      EndCollective(shard_channel_, unshard_stream_, {shard, full});
    }
    if (!passing) return;
    builder_.RecordStream(unshard_stream_, shard.buffer());
    operations_.Release(shard);
  }

  void Reshard(FlatUnit& u) {
    if (!u.unsharded) return;
    for (const Range* full : {&u.full, &u.frozen.full}) {
      if (!*full || full->elements == 0) continue;
      builder_.RecordStream(step_.compute(), full->buffer());
      operations_.Release(*full);
    }
    u.unsharded = false;
    u.prefetched = false;
    if (limiter_) limiter_->Freed();
  }

  void PostBackward(int unit) {
    FlatUnit& u = units_[unit];
    if (u.empty()) return;
    if (u.trains()) JoinGradients(u);
    if (Synchronises() || ReshardsAfterForward()) Reshard(u);
    // The root's turn comes last: the unit before it has finished its backward.
    if (plan_.data_parallel.backward_prefetch == BackwardPrefetch::kPost && unit != order_.root) {
      Prefetch(Next(unit, true));
    }
    if (Synchronises() && u.trains()) Reduce(u);
  }

  // The backward of the flat parameter's split into views, then AccumulateGrad.
  void JoinGradients(FlatUnit& u) {
    const Range& target = u.has_gradient ? u.next_gradient : u.gradient;
    operations_.Allocate(step_.compute(), target);
    operations_.Writes(target);
    for (const Piece& part : u.flat.tensors) {
      const Range& gradient = gradients_.range(part.tensor);
      operations_.Reads(gradient);
      operations_.Moves(target.Part(part.offset, part.elements), gradient);
    }
    operations_.Run(step_.compute(), "join_gradients");
    for (const int tensor : u.tensors) {
      if (gradients_.exists(tensor)) gradients_.Release(tensor);
    }
    if (u.has_gradient) {
      operations_.Accumulate(step_.compute(), "accumulate_gradient", u.gradient, target);
      operations_.Release(target);
    }
    u.has_gradient = true;
  }

  void Reduce(FlatUnit& u) {
    builder_.WaitForStream(post_backward_stream_, step_.compute(), gradients_joined_);
    Range input = u.gradient;
    const auto copy_to = [&](const Range& target, const char* name) {
      operations_.Allocate(post_backward_stream_, target);
      operations_.Copy(post_backward_stream_, name, target, input);
      input = target;
    };
    if (u.cast) copy_to(u.cast, "cast_gradient");
    if (u.padded) copy_to(u.padded, "pad_gradient");

    const bool accumulates = u.state.has_gradient;
    const Range& shard = u.reduced ? u.reduced : accumulates ? u.contribution : u.state.gradient;
    operations_.Allocate(post_backward_stream_, shard);
    Accumulate(u, Sum(u, input, shard), shard);

    // The hook's local variables go out of scope.
    if (u.reduced || accumulates) operations_.Release(shard);
    if (u.padded) operations_.Release(u.padded);
    if (u.cast) operations_.Release(u.cast);
    builder_.RecordStream(post_backward_stream_, u.gradient.buffer());
    operations_.Release(u.gradient);
    u.has_gradient = false;
  }

  // Reduces the full gradient `input` into `shard`. Returns the stream on which this ends.
  StreamId Sum(const FlatUnit& u, const Range& input, const Range& shard) {
    const std::int64_t all = plan::GradientRanks(plan_);
    const std::int64_t before = GradientPredivideFactor(all);
    Divide(post_backward_stream_, input, u.flat.elements, 1, before);
    if (shard_channel_.communicator != kNone) {
      operations_.ReduceScatter(BeginCollective(shard_channel_, post_backward_stream_),
                                shard_channel_.communicator, shard, input);
      EndCollective(shard_channel_, post_backward_stream_, {input, shard});
    } else {
      operations_.Copy(post_backward_stream_, "copy_gradient", shard, input);
    }
    StreamId stream = post_backward_stream_;
    if (replica_channel_.communicator != kNone) {
      if (final_stream_ != stream) {
        builder_.WaitForStream(final_stream_, stream, reduce_scattered_);
        builder_.RecordStream(final_stream_, shard.buffer());
        stream = final_stream_;
      }
      operations_.AllReduce(BeginCollective(replica_channel_, stream),
                            replica_channel_.communicator, shard);
      EndCollective(replica_channel_, stream, {shard});
    }
    Divide(stream, shard, shard.elements, before, all);
    return stream;
  }

  // Multiplies the range in place by dividend / divisor; only its first `elements` have values.
  void Divide(StreamId stream, const Range& range, std::int64_t elements, std::int64_t dividend,
              std::int64_t divisor) {
    if (divisor <= dividend) return;
    const Range values = range.Part(0, elements);
    operations_.Updates(range);
    operations_.Moves(values, values, static_cast<double>(dividend) / static_cast<double>(divisor));
    operations_.Run(stream, "divide_gradient");
  }

  // Stores the reduced shard as the gradient, or adds it to the gradient.
  void Accumulate(FlatUnit& u, StreamId stream, const Range& shard) {
    const bool accumulates = u.state.has_gradient;
    const Range& contribution = accumulates ? u.contribution : u.state.gradient;
    if (u.reduced) {
      operations_.Allocate(stream, contribution);
      operations_.Copy(stream, "cast_reduced", contribution, shard);
    }
    if (accumulates) {
      operations_.Accumulate(stream, "accumulate_gradient", u.state.gradient, contribution);
      if (u.reduced) operations_.Release(contribution);
    }
    u.state.has_gradient = true;
    if (!offload_.parameters()) return;
    // _runtime_utils.py, _offload_grad.
    builder_.ToHost(stream, u.state.gradient.size(), {Reads(u.state.gradient)});
    if (stream != post_backward_stream_) {
      builder_.RecordStream(stream, u.state.gradient.buffer());
    }
    operations_.Release(u.state.gradient);
    u.state.has_gradient = false;
  }

  const ProcessGroups groups_;
  const Units wrapping_;
  const DataType gathered_type_;  // what kernels read, unless autocast copies it first

  StreamId pre_unshard_stream_ = 0, unshard_stream_ = 0, post_backward_stream_ = 0;
  StreamId final_stream_ = 0;  // where gradient shards become final
  Channel shard_channel_, replica_channel_;
  Index compute_issued_ = kNone, shard_cast_ = kNone, gradients_joined_ = kNone;
  Index reduce_scattered_ = kNone, reduced_ = kNone, updated_ = kNone;
  std::vector<FlatUnit> units_;  // as wrapping_.units
  Autocast autocast_;
  LocalGradients gradients_;
  GradientClipping clipping_;
  HostOffload offload_;
  std::optional<RateLimiter> limiter_;
  UnitOrder order_;
  bool backward_begun_ = false;
};

}  // namespace

std::int64_t GradientPredivideFactor(std::int64_t ranks) {
  std::int64_t factor = 1;
  while (ranks % factor == 0 && ranks > factor * factor) factor *= 2;
  return factor;
}

program::Program LowerFsdp1(const scenario::Scenario& scenario, const LowerOptions& options) {
  return LowerWith<Fsdp1>(scenario, options);
}

}  // namespace stepcast::lowering
