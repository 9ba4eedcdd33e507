#include "src/lowering/fsdp1.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/lowering/effects.h"
#include "src/lowering/flat_parameter.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/memory_kernel.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/rate_limiter.h"
#include "src/lowering/sharded_state.h"
#include "src/lowering/training_step.h"
#include "src/lowering/units.h"

namespace stepcast::lowering {
namespace {

using plan::BackwardPrefetch;
using plan::Version;
using program::BufferUse;
using program::Category;
using program::kNone;

// Flat parameters are aligned to so many bytes (torch/distributed/fsdp/_flat_param.py).
constexpr std::int64_t kAlignment = 16;

// One FullyShardedDataParallel'ed module.
struct FlatUnit {
  std::vector<int> tensors;
  FlatParameter flat;
  ShardedState state;
  // Parameters.
  Index low_precision = kNone;  // the shard in the compute type, until it has been gathered
  Index full = kNone;           // as the kernels read them
  Index cast_shard = kNone, copy_shard = kNone;  // kernels
  Index all_gather = kNone;                      // collective
  Index gathered = kNone;                        // event
  bool unsharded = false;                        // the full parameters exist
  bool prefetched = false;                       // has been asked for before its turn
  // Gradients.
  Index gradient = kNone, next_gradient = kNone;  // full and flat, in the compute type
  Index cast = kNone, padded = kNone;             // full, in reduce_dtype
  Index reduced = kNone;                          // shard, in reduce_dtype
  Index contribution = kNone;  // shard in the parameters' type, about to be accumulated
  Index join = kNone, accumulate = kNone, cast_gradient = kNone, pad = kNone;  // kernels
  Index divide_full = kNone, divide_shard = kNone, cast_reduced = kNone, add = kNone;
  Index copy_gradient = kNone;
  Index reduce_scatter = kNone, all_reduce = kNone;  // collectives
  bool has_gradient = false;                         // the full one
};

// A communicator and, before torch 2.8, the stream of its process group.
struct Channel {
  Index communicator = kNone;
  std::optional<StreamId> own_stream;
  Index issued = kNone, done = kNone;  // events
};

class Fsdp1 final : public Technique {
 public:
  explicit Fsdp1(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        plan_(step.plan()),
        groups_(ProcessGroupsOf(plan_, step.rank())),
        wrapping_(plan_.data_parallel.units == plan::WrappedUnits::kLayer
                      ? UnitPerModule(step.model())
                      : UnitPerBlock(step.model())),
        compute_type_(plan::ComputeType(plan_.training.precision)),
        gradients_(step, compute_type_),
        clipping_(step) {}

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
    AllocateFrameworkWorkspaces(step_, {step_.compute()});
    clipping_.WritePrologue(shard_channel_.communicator);
    compute_issued_ = builder_.AddEvent("compute issued");
    shard_cast_ = builder_.AddEvent("shard cast");
    gradients_joined_ = builder_.AddEvent("gradients joined");
    reduce_scattered_ = builder_.AddEvent("reduce-scattered");
    reduced_ = builder_.AddEvent("gradients reduced");
    updated_ = builder_.AddEvent("updated");
    units_.reserve(wrapping_.units.size());
    for (const Unit& unit : wrapping_.units) {
      const int index = static_cast<int>(units_.size());
      AddUnit(unit);
      place_.push_back(static_cast<int>(blocks_.size()));
      if (units_.back().flat.elements == 0) continue;
      if (unit.root) {
        root_ = index;
      } else {
        blocks_.push_back(index);
      }
    }
    if (plan_.data_parallel.limit_all_gathers) limiter_.emplace(builder_, step_.compute());
  }

  // The root's pre-forward: the shards may have been updated on the compute stream.
  void BeginForward() override {
    builder_.Record(step_.compute(), compute_issued_);
    builder_.Wait(unshard_stream_, compute_issued_);
    builder_.Wait(pre_unshard_stream_, compute_issued_);
    backward_begun_ = false;
    for (FlatUnit& u : units_) u.prefetched = false;
    if (root_ >= 0) PreForward(root_);
  }

  void BeforeForward(int layer) override {
    const int unit = wrapping_.of_layer[layer];
    if (unit != root_) PreForward(unit);
  }

  void AfterForward(int layer) override {
    const int unit = wrapping_.of_layer[layer];
    if (unit != root_ && ReshardsAfterForward()) Reshard(units_[unit]);
  }

  void BeforeBackward(int layer) override {
    if (!backward_begun_) {
      backward_begun_ = true;
      if (root_ >= 0) PreBackward(root_);
    }
    const int unit = wrapping_.of_layer[layer];
    if (unit != root_) PreBackward(unit);
  }

  void AfterBackward(int layer) override {
    const int unit = wrapping_.of_layer[layer];
    if (unit != root_) PostBackward(unit);
  }

  // The root's own post-backward, then its final callback.
  void EndBackward() override {
    if (root_ >= 0) PostBackward(root_);
    if (!Synchronises()) return;
    builder_.WaitForStream(step_.compute(), post_backward_stream_, reduced_);
    if (final_stream_ != post_backward_stream_) {
      builder_.WaitForStream(step_.compute(), final_stream_, reduced_);
    }
  }

  void AppendParameterReads(int layer, std::vector<BufferUse>& uses) override {
    uses.push_back(builder_.ReadsAll(units_[wrapping_.of_layer[layer]].full));
  }

  void WriteGradient(int layer, int tensor) override {
    const FlatUnit& u = units_[wrapping_.of_layer[layer]];
    program::Elements read = At(u.full, 0, compute_type_);
    for (const FlatTensor& part : u.flat.tensors) {
      if (part.tensor == tensor) read = Further(read, part.offset);
    }
    gradients_.Write(tensor, read);
  }

  void GradientReady(int) override {}

  void WriteUpdate() override {
    const std::int64_t tensors = FindUpdatedTensors();
    std::vector<ShardedState*> states;
    for (FlatUnit& u : units_) states.push_back(&u.state);
    std::vector<StreamId> streams = {post_backward_stream_};
    if (final_stream_ != post_backward_stream_) streams.push_back(final_stream_);
    WriteShardedUpdate(step_, states, streams, updated_, clipping_, tensors);
    if (limiter_) limiter_->Finish();
  }

 private:
  // What the optimizer has, how many tensors: flat parameters, or the original ones as far as they
  // reach into the rank's part. Ranks have different ones of these; what is written is what the
  // rank with most of them does, for which the others wait.
  std::int64_t FindUpdatedTensors() {
    std::vector<const FlatParameter*> flat;
    for (const FlatUnit& u : units_) flat.push_back(&u.flat);
    const bool original = plan_.data_parallel.use_orig_params;
    const std::int64_t fullest = original ? FullestRank(flat) : 0;
    std::int64_t tensors = 0;
    for (FlatUnit& u : units_) {
      u.state.updated.clear();
      if (u.flat.elements == 0) continue;
      if (original) {
        for (const ShardPart& part : PartsOf(u.flat, fullest)) {
          u.state.updated.push_back({.tensor = part.tensor, .elements = part.elements});
        }
      } else {
        // The root's flat parameter is registered before those of the modules in it.
        const int first = &u == Root() ? -1 : u.flat.tensors.front().tensor;
        u.state.updated.push_back({.tensor = first, .elements = u.flat.shard});
      }
      tensors += static_cast<std::int64_t>(u.state.updated.size());
    }
    return tensors;
  }
  const FlatUnit* Root() const { return root_ >= 0 ? &units_[root_] : nullptr; }
  bool ReshardsAfterForward() const { return plan_.data_parallel.zero_stage == 3; }
  bool Synchronises() const {
    return !plan_.data_parallel.accumulate_unsharded || step_.last_micro_batch();
  }
  DataType reduce_type() const { return plan_.training.reduce_dtype; }
  bool CastsParameters() const { return plan_.training.parameter_dtype != compute_type_; }
  bool CastsGradients() const { return reduce_type() != compute_type_; }
  bool CastsReduced() const { return reduce_type() != plan_.training.parameter_dtype; }
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

  // A collective in the order of `stream`.
  void Communicate(const Channel& channel, StreamId stream, Index collective,
                   std::initializer_list<BufferUse> uses) {
    if (!channel.own_stream) {
      builder_.Communicate(stream, collective, uses);
      return;
    }
    const StreamId own = *channel.own_stream;
    builder_.WaitForStream(own, stream, channel.issued);
    builder_.Communicate(own, collective, uses);
    for (const BufferUse& use : uses) builder_.RecordStream(own, use.buffer);
    builder_.WaitForStream(stream, own, channel.done);
  }

  Index AddMemoryKernel(const char* name, DataType type, Bytes read, Bytes written) {
    return builder_.AddKernel(MemoryKernel(name, type, read, written));
  }

  void AddUnit(const Unit& unit) {
    const plan::Training& training = plan_.training;
    FlatUnit& u = units_.emplace_back();
    u.tensors = unit.tensors;
    const bool aligned =
        plan_.data_parallel.use_orig_params && plan_.software.torch >= Version{2, 1};
    u.flat = Flatten(step_.model(), unit.tensors, ranks(),
                     aligned ? kAlignment / SizeOf(compute_type_) : 0);
    const FlatParameter& flat = u.flat;
    u.state = AddShardedState(step_, builder_.AddText(unit.name), flat.shard, flat.exact, ranks(),
                              builder_.describes_data_flow() ? PartsOf(flat, groups_.shard_index())
                                                             : std::vector<ShardPart>());
    const auto add_buffer = [&](const char* what, std::int64_t elements, std::int64_t exact,
                                DataType type, Category category) {
      return builder_.AddBuffer(unit.name + what, BytesOf(elements, type), category,
                                Bytes(elements * SizeOf(type) - exact * SizeOf(type)));
    };
    const auto shard_bytes = [&](DataType type) { return BytesOf(flat.shard, type); };
    const auto padded_bytes = [&](DataType type) { return BytesOf(flat.padded(), type); };
    const std::int64_t exact_shard = flat.exact / ranks();

    u.full = add_buffer("/flat parameter", flat.padded(), flat.exact, compute_type_,
                        Category::kCommunication);
    u.gathered = builder_.AddEvent(unit.name + " gathered");
    const bool alone = shard_channel_.communicator == kNone;
    if (alone) {
      u.copy_shard =
          AddMemoryKernel("copy_shard", compute_type_, shard_bytes(training.parameter_dtype),
                          padded_bytes(compute_type_));
    } else {
      u.all_gather = builder_.AddCollective({.kind = CollectiveKind::kAllGather,
                                             .communicator = shard_channel_.communicator,
                                             .bytes = padded_bytes(compute_type_),
                                             .data_type = compute_type_});
      u.reduce_scatter = builder_.AddCollective({.kind = CollectiveKind::kReduceScatter,
                                                 .communicator = shard_channel_.communicator,
                                                 .bytes = padded_bytes(reduce_type()),
                                                 .data_type = reduce_type()});
    }
    if (!alone && CastsParameters()) {
      u.low_precision = add_buffer("/low-precision shard", flat.shard, exact_shard, compute_type_,
                                   Category::kCommunication);
      u.cast_shard =
          AddMemoryKernel("cast_shard", compute_type_, shard_bytes(training.parameter_dtype),
                          shard_bytes(compute_type_));
    }
    if (replica_channel_.communicator != kNone) {
      u.all_reduce = builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                             .communicator = replica_channel_.communicator,
                                             .bytes = shard_bytes(reduce_type()),
                                             .data_type = reduce_type()});
    }
    AddGradients(unit.name, u);
  }

  void AddGradients(const std::string& name, FlatUnit& u) {
    const FlatParameter& flat = u.flat;
    const DataType kept = plan_.training.parameter_dtype;
    const auto add_buffer = [&](const char* what, std::int64_t elements, std::int64_t exact,
                                DataType type) {
      return builder_.AddBuffer(name + what, BytesOf(elements, type), Category::kGradient,
                                Bytes((elements - exact) * SizeOf(type)));
    };
    const Bytes computed = BytesOf(flat.elements, compute_type_);
    u.gradient = add_buffer("/flat gradient", flat.elements, flat.exact, compute_type_);
    u.join = AddMemoryKernel("join_gradients", compute_type_, BytesOf(flat.exact, compute_type_),
                             computed);
    if (plan_.data_parallel.accumulate_unsharded && plan_.training.gradient_accumulation > 1) {
      u.next_gradient =
          add_buffer("/flat gradient (next)", flat.elements, flat.exact, compute_type_);
      u.accumulate =
          AddMemoryKernel("accumulate_gradient", compute_type_, computed + computed, computed);
    }
    Bytes full = computed;
    if (CastsGradients()) {
      u.cast = add_buffer("/cast gradient", flat.elements, flat.exact, reduce_type());
      full = builder_.SizeOf(u.cast);
      u.cast_gradient = AddMemoryKernel("cast_gradient", reduce_type(), computed, full);
    }
    if (flat.padded() > flat.elements) {
      u.padded = add_buffer("/padded gradient", flat.padded(), flat.exact, reduce_type());
      u.pad = AddMemoryKernel("pad_gradient", reduce_type(), full, builder_.SizeOf(u.padded));
      full = builder_.SizeOf(u.padded);
    }
    u.divide_full = AddMemoryKernel("divide_gradient", reduce_type(), full, full);
    const std::int64_t exact_shard = flat.exact / ranks();
    if (CastsReduced()) {
      u.reduced = add_buffer("/reduced gradient", flat.shard, exact_shard, reduce_type());
      u.cast_reduced = AddMemoryKernel("cast_reduced", kept, BytesOf(flat.shard, reduce_type()),
                                       BytesOf(flat.shard, kept));
    }
    const Bytes shard = BytesOf(flat.shard, reduce_type());
    u.divide_shard = AddMemoryKernel("divide_gradient", reduce_type(), shard, shard);
    if (shard_channel_.communicator == kNone) {
      u.copy_gradient = AddMemoryKernel("copy_gradient", reduce_type(), full, shard);
    }
    if (plan_.training.gradient_accumulation > 1) {
      u.contribution = add_buffer("/gradient shard (next)", flat.shard, exact_shard, kept);
      const Bytes size = builder_.SizeOf(u.contribution);
      u.add = AddMemoryKernel("accumulate_gradient", kept, size + size, size);
    }
  }

  // The unit that follows `unit` in the direction of travel, which starts with the root; nothing
  // after the last.
  FlatUnit* Next(int unit, bool backward) {
    const int count = static_cast<int>(blocks_.size());
    int at = backward ? count - 1 : 0;
    if (unit != root_) at = place_[unit] + (backward ? -1 : 1);
    return at >= 0 && at < count ? &units_[blocks_[at]] : nullptr;
  }

  void Prefetch(FlatUnit* u) {
    if (u == nullptr || u->prefetched) return;
    Unshard(*u);
    u->prefetched = true;
  }

  void PreForward(int unit) {
    FlatUnit& u = units_[unit];
    if (u.flat.elements == 0) return;
    if (!u.prefetched) Unshard(u);
    builder_.Wait(step_.compute(), u.gathered);
    if (plan_.data_parallel.forward_prefetch) Prefetch(Next(unit, false));
  }

  void PreBackward(int unit) {
    FlatUnit& u = units_[unit];
    if (u.flat.elements == 0) return;
    if (!u.prefetched) Unshard(u);
    builder_.Wait(step_.compute(), u.gathered);
    if (plan_.data_parallel.backward_prefetch == BackwardPrefetch::kPre) {
      Prefetch(Next(unit, true));
    }
  }

  void Unshard(FlatUnit& u) {
    const bool casts = !u.unsharded && u.low_precision != kNone;
    const program::Elements kept = ParameterShard(step_, u.state);
    const program::Elements low = At(u.low_precision, 0, compute_type_);
    if (casts) {
      builder_.Allocate(pre_unshard_stream_, u.low_precision);
      builder_.With(Move(low, kept, u.flat.shard));
      builder_.Run(pre_unshard_stream_, u.cast_shard,
                   {builder_.ReadsAll(u.state.parameters), builder_.WritesAll(u.low_precision)});
      builder_.WaitForStream(unshard_stream_, pre_unshard_stream_, shard_cast_);
    }
    if (limiter_) limiter_->Gather();
    if (u.unsharded) return;
    builder_.Allocate(unshard_stream_, u.full);
    const program::Elements full = At(u.full, 0, compute_type_);
    if (u.all_gather == kNone) {
      builder_.With(Move(full, kept, u.flat.shard));
      builder_.Run(unshard_stream_, u.copy_shard,
                   {builder_.ReadsAll(u.state.parameters), builder_.WritesAll(u.full)});
    } else {
      const Index source = casts ? u.low_precision : u.state.parameters;
      builder_.With(Collected(full, casts ? low : kept, u.flat.padded()));
      Communicate(shard_channel_, unshard_stream_, u.all_gather,
                  {builder_.ReadsAll(source), builder_.WritesAll(u.full)});
    }
    if (casts) {
      builder_.RecordStream(unshard_stream_, u.low_precision);
      builder_.Release(u.low_precision);
    }
    builder_.Record(unshard_stream_, u.gathered);
    u.unsharded = true;
  }

  void Reshard(FlatUnit& u) {
    if (!u.unsharded) return;
    builder_.RecordStream(step_.compute(), u.full);
    builder_.Release(u.full);
    u.unsharded = false;
    u.prefetched = false;
    if (limiter_) limiter_->Freed();
  }

  void PostBackward(int unit) {
    FlatUnit& u = units_[unit];
    if (u.flat.elements == 0) return;
    JoinGradients(u);
    if (Synchronises() || ReshardsAfterForward()) Reshard(u);
    // The root comes last: the unit before it has had its backward.
    if (plan_.data_parallel.backward_prefetch == BackwardPrefetch::kPost && unit != root_) {
      Prefetch(Next(unit, true));
    }
    if (Synchronises()) Reduce(u);
  }

  // The backward of the flat parameter's split into views, and AccumulateGrad.
  void JoinGradients(FlatUnit& u) {
    const Index target = u.has_gradient ? u.next_gradient : u.gradient;
    builder_.Allocate(step_.compute(), target);
    std::vector<BufferUse> uses{builder_.WritesAll(target)};
    for (const FlatTensor& part : u.flat.tensors) {
      uses.push_back(builder_.ReadsAll(gradients_.buffer(part.tensor)));
      builder_.With(Move(At(target, part.offset, compute_type_), gradients_.place(part.tensor),
                         part.elements));
    }
    builder_.Run(step_.compute(), u.join, uses);
    for (const int tensor : u.tensors) {
      if (gradients_.exists(tensor)) gradients_.Release(tensor);
    }
    if (u.has_gradient) {
      builder_.With(Added(
          Move(At(u.gradient, 0, compute_type_), At(target, 0, compute_type_), u.flat.elements)));
      builder_.Run(step_.compute(), u.accumulate,
                   {builder_.ReadsAll(target), builder_.WritesAll(u.gradient)});
      builder_.Release(target);
    }
    u.has_gradient = true;
  }

  void Reduce(FlatUnit& u) {
    const FlatParameter& flat = u.flat;
    builder_.WaitForStream(post_backward_stream_, step_.compute(), gradients_joined_);
    Index input = u.gradient;
    DataType type = compute_type_;
    const auto copy_to = [&](Index buffer, Index kernel) {
      builder_.Allocate(post_backward_stream_, buffer);
      builder_.With(Move(At(buffer, 0, reduce_type()), At(input, 0, type), flat.elements));
      builder_.Run(post_backward_stream_, kernel,
                   {builder_.ReadsAll(input), builder_.WritesAll(buffer)});
      input = buffer;
      type = reduce_type();
    };
    if (u.cast != kNone) copy_to(u.cast, u.cast_gradient);
    if (u.padded != kNone) copy_to(u.padded, u.pad);

    const bool accumulates = u.state.has_gradient;
    const Index shard = CastsReduced() ? u.reduced
                        : accumulates  ? u.contribution
                                       : u.state.gradient;
    builder_.Allocate(post_backward_stream_, shard);
    const StreamId stream = Sum(u, input, shard);
    Accumulate(u, stream, shard);

    // The hook's local variables go out of scope.
    if (shard != u.state.gradient) builder_.Release(shard);
    if (u.padded != kNone) builder_.Release(u.padded);
    if (u.cast != kNone) builder_.Release(u.cast);
    builder_.RecordStream(post_backward_stream_, u.gradient);
    builder_.Release(u.gradient);
    u.has_gradient = false;
  }

  // Reduces the full gradient `input` into `shard`; on which stream it is done.
  StreamId Sum(const FlatUnit& u, Index input, Index shard) {
    const std::int64_t all = plan_.parallelism.data;
    const program::Elements whole = At(input, 0, reduce_type());
    const program::Elements part = At(shard, 0, reduce_type());
    const std::int64_t before = GradientPredivideFactor(all);
    Divide(post_backward_stream_, u.divide_full, input, whole, u.flat.elements, 1, before);
    if (u.reduce_scatter != kNone) {
      builder_.With(Collected(part, whole, u.flat.padded()));
      Communicate(shard_channel_, post_backward_stream_, u.reduce_scatter,
                  {builder_.ReadsAll(input), builder_.WritesAll(shard)});
    } else {
      builder_.With(Move(part, whole, u.flat.shard));
      builder_.Run(post_backward_stream_, u.copy_gradient,
                   {builder_.ReadsAll(input), builder_.WritesAll(shard)});
    }
    StreamId stream = post_backward_stream_;
    if (u.all_reduce != kNone) {
      if (final_stream_ != stream) {
        builder_.WaitForStream(final_stream_, stream, reduce_scattered_);
        builder_.RecordStream(final_stream_, shard);
        stream = final_stream_;
      }
      builder_.With(Collected(part, part, u.flat.shard));
      Communicate(replica_channel_, stream, u.all_reduce, {builder_.WritesAll(shard)});
    }
    Divide(stream, u.divide_shard, shard, part, u.flat.shard, before, all);
    return stream;
  }

  // In place, by divisor / dividend.
  void Divide(StreamId stream, Index kernel, Index buffer, const program::Elements& place,
              std::int64_t elements, std::int64_t dividend, std::int64_t divisor) {
    if (divisor <= dividend) return;
    const double scale = static_cast<double>(dividend) / static_cast<double>(divisor);
    builder_.With(Scaled(scale, Move(place, place, elements)));
    builder_.Run(stream, kernel, {builder_.WritesAll(buffer)});
  }

  // The reduced shard becomes the gradient's, or is added to it.
  void Accumulate(FlatUnit& u, StreamId stream, Index shard) {
    const bool accumulates = u.state.has_gradient;
    const program::Elements kept = GradientShard(step_, u.state);
    const Index contribution = accumulates ? u.contribution : u.state.gradient;
    const program::Elements added = At(contribution, 0, kept.type);
    if (shard == u.reduced) {
      builder_.Allocate(stream, contribution);
      builder_.With(Move(added, At(shard, 0, reduce_type()), u.flat.shard));
      builder_.Run(stream, u.cast_reduced,
                   {builder_.ReadsAll(shard), builder_.WritesAll(contribution)});
    }
    if (accumulates) {
      builder_.With(Added(Move(kept, added, u.flat.shard)));
      builder_.Run(stream, u.add,
                   {builder_.ReadsAll(contribution), builder_.WritesAll(u.state.gradient)});
      if (shard == u.reduced) builder_.Release(contribution);
    }
    u.state.has_gradient = true;
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Plan& plan_;
  const ProcessGroups groups_;
  const Units wrapping_;
  const DataType compute_type_;  // what is gathered and what kernels read

  StreamId pre_unshard_stream_ = 0, unshard_stream_ = 0, post_backward_stream_ = 0;
  StreamId final_stream_ = 0;  // where gradient shards become final
  Channel shard_channel_, replica_channel_;
  Index compute_issued_ = kNone, shard_cast_ = kNone, gradients_joined_ = kNone;
  Index reduce_scattered_ = kNone, reduced_ = kNone, updated_ = kNone;
  std::vector<FlatUnit> units_;  // as wrapping_.units
  LocalGradients gradients_;
  GradientClipping clipping_;
  std::optional<RateLimiter> limiter_;
  std::vector<int> blocks_;  // units with parameters but the root, in forward order
  std::vector<int> place_;   // in blocks_, by unit
  int root_ = -1;
  bool backward_begun_ = false;
};

}  // namespace

std::int64_t GradientPredivideFactor(std::int64_t ranks) {
  std::int64_t factor = 1;
  while (ranks % factor == 0 && ranks > factor * factor) factor *= 2;
  return factor;
}

program::Program LowerFsdp1(const scenario::Scenario& scenario, const LowerOptions& options) {
  TrainingStep step(scenario, options);
  Fsdp1 technique(step);
  return step.Write(technique);
}

}  // namespace stepcast::lowering
