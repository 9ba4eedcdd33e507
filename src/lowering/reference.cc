#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/lowering/framework_steps.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/gradients.h"
#include "src/lowering/layouts.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/lowering/units.h"
#include "src/lowering/update.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

// Tensors that are reduced in one collective.
struct ReducedBucket {
  Index name = kNone;  // a text
  FlatLayout layout;
  std::span<const int> tensors;      // of order_
  int missing = 0;                   // gradients of this micro-batch still to come
  bool allocated = false;            // full gradients exist
  Range gradients;                   // full, in the type in which backward writes them
  Range gradient_shard;              // stages 2 and 3, unless they are reduced where they are
  Range accumulators;                // in a larger type: of what is kept, full or the shard
  program::Elements reduced_values;  // this rank's part of the reduced gradients
  Range optimizer;
  Index ready = kNone, reduced = kNone;  // events
  // Collectives, added when first needed.
  Index reduction = kNone, replica_reduction = kNone;
};

// The parameters of a bucket, up to stage 2.
struct BucketParameters {
  Range all;
  Index updated = kNone;   // event, stages 1 and 2: this rank's part is new
  Index gathered = kNone;  // event
};

class Reference final : public FrameworkStrategy {
 public:
  explicit Reference(TrainingStep& step)
      : FrameworkStrategy(step),
        data_parallel_(plan_.data_parallel),
        groups_(ProcessGroupsOf(step.grids(), step.rank())),
        stage_(groups_.shard.size() == 1 ? 0 : data_parallel_.zero_stage),
        sharded_parameters_(stage_ == 3),
        keeps_full_gradients_(KeepsFullGradients()),
        reduces_in_place_(!keeps_full_gradients_ && !data_parallel_.overlap &&
                          plan_.training.gradient_accumulation == 1),
        written_type_(plan::WrittenGradientType(plan_.training)),
        units_(step, operations_, groups_, pieces_),
        clipping_(step),
        tied_(step) {}

  void WritePrologue() override {
    communication_ = builder_.AddStream("communication");
    replica_stream_ = communication_;
    if (stage_ == 0) {
      communicator_ = builder_.AddCommunicator("data", groups_.data);
    } else {
      communicator_ = builder_.AddCommunicator(groups_.shard_name(), groups_.shard);
      replica_communicator_ = builder_.AddCommunicator("replica", groups_.replica);
      if (replica_communicator_ != kNone) {
        replica_stream_ = builder_.AddStream("replica communication");
      }
    }
    tied_.WritePrologue();
    clipping_.WritePrologue(stage_ == 0 ? kNone : communicator_);
    AddBuckets();
    AddParameters();
    AddPieces();
    if (builder_.describes_data_flow()) AddStates();
    layer_done_ = builder_.AddEvent("layer done");
    update_done_ = builder_.AddEvent("update done");
  }

  void BeginStep() override {
    if (sharded_parameters_) builder_.Wait(communication_, update_done_);
    std::fill(waited_.begin(), waited_.end(), false);
  }

  void BeginForward() override {
    // Copies for the host before the first layer also use memory that a gather may get.
    const bool copies = plan_.training.data_loading || plan_.training.checkpoint_saving;
    if (sharded_parameters_ && copies) LayerDone();
  }

  void BeforeForward(int layer) override {
    AwaitLayer();
    if (sharded_parameters_) {
      units_.BeforeForward(layer);
    } else if (stage_ > 0) {
      WaitForBuckets(layer);
    }
  }

  void AfterForward(int layer) override {
    if (sharded_parameters_) units_.AfterForward(layer);
    LayerDone();
  }

  void BeforeBackward(int layer) override {
    AwaitLayer();
    if (sharded_parameters_) units_.BeforeBackward(layer);
  }

  void AfterBackward(int layer) override {
    LayerDone();
    if (sharded_parameters_) units_.AfterBackward(layer);
  }

  void EndBackward() override {
    if (step_.last_pass()) {
      tied_.AddUp(communication_, [this](int tensor) {
        const ReducedBucket& bucket = buckets_[pieces_.bucket_of(tensor)];
        return Accumulated(bucket, bucket.gradients).At(pieces_.gradient_offset(tensor));
      });
      deferred_.insert(deferred_.end(), tied_buckets_.begin(), tied_buckets_.end());
      tied_buckets_.clear();
    }
    for (const int bucket : deferred_) Reduce(bucket);
    // Without overlap no kernel runs while gradients are reduced.
    for (const int bucket : deferred_) builder_.Wait(step_.compute(), buckets_[bucket].reduced);
    if (!deferred_.empty()) LayerDone();
    deferred_.clear();
  }

  void AppendParameterReads(int layer, std::vector<BufferUse>& uses) override {
    for (const int tensor : step_.model().layers[layer].tensors) {
      for (const TensorPiece& piece : pieces_.Of(tensor)) {
        const program::Elements place = ParameterPlace(tensor, piece);
        uses.push_back(Reads(place.buffer, place.offset, BytesOf(piece.elements, place.type)));
      }
    }
  }

  void WriteGradient(int /*layer*/, int tensor) override {
    ReducedBucket& bucket = buckets_[pieces_.bucket_of(tensor)];
    if (!bucket.allocated) {
      Keep(bucket.gradients);
      bucket.allocated = true;
    }
    // Whether the bucket already holds a value to add to: this micro-batch's contribution to a tied
    // tensor or, where full gradients are kept, any contribution of this step.
    const std::int64_t latest = latest_contribution_[tensor];
    const bool of_step = latest >= 0;
    const bool of_micro_batch = latest == step_.micro_batch();
    latest_contribution_[tensor] = step_.micro_batch();
    const bool accumulates_here = keeps_full_gradients_ && bucket.accumulators;
    const bool add = accumulates_here ? false : keeps_full_gradients_ ? of_step : of_micro_batch;
    for (const TensorPiece& piece : pieces_.Of(tensor)) {
      const Range written = bucket.gradients.Part(piece.gradient, piece.elements);
      builder_.Use(Writes(written));
      step_.WithGradient(tensor, piece.first, piece.elements, written.place,
                         ParameterPlace(tensor, piece), add);
      if (!accumulates_here) continue;
      // The textbook's kernel adds to the accumulators what it has just written.
      const Range sum = bucket.accumulators.Part(piece.gradient, piece.elements);
      builder_.Use(Writes(sum));
      const program::Effect move = Move(sum.place, written.place, piece.elements);
      builder_.With(of_step ? Added(move) : move);
    }
  }

  void GradientReady(int tensor) override {
    const int index = pieces_.bucket_of(tensor);
    ReducedBucket& bucket = buckets_[index];
    if (keeps_full_gradients_ && !step_.completes(tensor)) return;
    if (--bucket.missing > 0) return;
    bucket.missing = static_cast<int>(bucket.tensors.size());
    // Gradients to which another stage contributes are reduced when both stages have theirs.
    const bool tied = std::any_of(bucket.tensors.begin(), bucket.tensors.end(),
                                  [this](int own) { return tied_.Has(own); });
    if (tied) {
      tied_buckets_.push_back(index);
    } else if (data_parallel_.overlap) {
      Reduce(index);
    } else if (keeps_full_gradients_ || reduces_in_place_) {
      deferred_.push_back(index);
    } else {
      // No kernel runs while gradients are reduced, and they are freed before the next ones are
      // made.
      Reduce(index);
      builder_.Wait(step_.compute(), bucket.reduced);
    }
  }

  void WriteUpdate() override {
    if (clipping_.clips()) ClipGradients();
    if (!sharded_parameters_ && stage_ > 0 && data_parallel_.overlap) {
      // In the order of the next forward, so that its first layers wait least.
      for (auto bucket = static_cast<int>(buckets_.size()) - 1; bucket >= 0; --bucket) {
        Update({&bucket, 1});
        GatherUpdated(bucket);
      }
    } else {
      std::vector<int> all;
      for (std::size_t i = 0; i < buckets_.size(); ++i) all.push_back(static_cast<int>(i));
      Update(all);
      if (!sharded_parameters_ && stage_ > 0) {
        for (auto bucket = all.rbegin(); bucket != all.rend(); ++bucket) GatherUpdated(*bucket);
      }
    }
    if (reduces_in_place_) {
      for (ReducedBucket& bucket : buckets_) ReleaseGradients(bucket);
    }
    builder_.Record(step_.compute(), update_done_);
    LayerDone();
  }

 private:
  // Whether gradients of the micro-batches add up whole on each rank, to be reduced once a step.
  bool KeepsFullGradients() const {
    const bool several = plan_.training.gradient_accumulation > 1;
    if (stage_ > 1) return data_parallel_.accumulate_unsharded && several;
    return data_parallel_.no_sync || !several || groups_.data.size() == 1;
  }

  // The host issues a layer when the layer before is done, so that memory is allocated when it is
  // used.
  void LayerDone() { builder_.Record(step_.compute(), layer_done_); }
  void AwaitLayer() { builder_.HostWait(layer_done_); }

  program::Elements ParameterPlace(int tensor, const TensorPiece& piece) const {
    const int group = pieces_.group_of(tensor);
    return (sharded_parameters_ ? units_.full(group) : parameters_[group].all).At(piece.parameter);
  }

  std::int64_t ShardIndex() const { return stage_ == 0 ? 0 : groups_.shard_index(); }

  // The first element of this rank's part of a whole.
  std::int64_t OwnFirst(const FlatLayout& layout) const { return ShardIndex() * layout.shard; }

  std::int64_t ShardRanks() const { return stage_ == 0 ? 1 : plan::ShardRanks(step_.plan()); }

  // Without a bucket size: one bucket per unit at stage 3, else everything in one.
  std::vector<Bucket> BucketsOfModel() {
    const model::Model& model = step_.model();
    order_ = GradientReadyOrder(model, step_.works(), step_.work_of_layers());
    if (const std::optional<Bytes>& limit = data_parallel_.bucket_size) {
      return BucketsOfChunks(SizeOf(plan_.training.reduce_dtype),
                             data_parallel_.first_bucket_size.value_or(*limit), *limit);
    }
    if (!sharded_parameters_) {
      const Bytes unlimited(std::numeric_limits<std::int64_t>::max());
      return BucketsOfChunks(1, unlimited, unlimited);
    }
    return BucketPerUnit(UnitPerLayer(model), order_);
  }

  // If each micro-batch is reduced, a bucket has only tensors of one chunk: a pass computes the
  // gradients of one chunk, and the next pass may belong to another micro-batch.
  std::vector<Bucket> BucketsOfChunks(std::int64_t bytes, Bytes first_limit, Bytes limit) const {
    if (keeps_full_gradients_) {
      return AssignBuckets(step_.model(), order_, bytes, first_limit, limit);
    }
    // A tensor's gradient is complete after the first of its layers.
    std::vector<int> first_layers(step_.model().tensors.size(), 0);
    for (auto layer = static_cast<int>(step_.model().layers.size()); layer-- > 0;) {
      for (const int tensor : step_.model().layers[layer].tensors) first_layers[tensor] = layer;
    }
    std::vector<Bucket> buckets;
    auto first = order_.begin();
    for (std::size_t chunk = step_.stage().chunks().size(); chunk-- > 0;) {
      const int begin = step_.stage().chunks()[chunk].first_layer;
      const auto last = std::find_if(first, order_.end(),
                                     [&](int tensor) { return first_layers[tensor] < begin; });
      const auto of_chunk = AssignBuckets(step_.model(), {first, last}, bytes,
                                          buckets.empty() ? first_limit : limit, limit);
      buckets.insert(buckets.end(), of_chunk.begin(), of_chunk.end());
      first = last;
    }
    return buckets;
  }

  void AddBuckets() {
    const bool apart = plan::AccumulatesApart(plan_.training);
    const DataType summed = plan_.training.gradient_dtype;
    const std::vector<Bucket> all = BucketsOfModel();
    buckets_.reserve(all.size());
    for (const Bucket& tensors : all) {
      const Index name = builder_.AddNumbered("bucket ", buckets_.size());
      ReducedBucket& bucket = buckets_.emplace_back();
      bucket.name = name;
      bucket.layout = Packed(tensors.elements, ShardRanks());
      bucket.tensors = tensors.tensors;
      bucket.missing = static_cast<int>(bucket.tensors.size());
      const auto add_whole = [&](const char* what, DataType type) {
        const Range whole = operations_.AddRange(builder_.Named(name, what), bucket.layout.padded(),
                                                 type, Category::kGradient, bucket.layout.exact);
        if (keeps_full_gradients_) Keep(whole);
        return whole;
      };
      const auto add_shard = [&](const char* what, DataType type) {
        const Range shard =
            operations_.AddShard(builder_.Named(name, what), bucket.layout.shard, type,
                                 Category::kGradient, bucket.layout.exact, bucket.layout.ranks);
        Keep(shard);
        return shard;
      };
      bucket.gradients = add_whole("/gradients", written_type_);
      bucket.allocated = keeps_full_gradients_;
      if (!keeps_full_gradients_ && !reduces_in_place_) {
        bucket.gradient_shard = add_shard("/gradient shard", written_type_);
      }
      if (apart) {
        bucket.accumulators = keeps_full_gradients_ ? add_whole("/gradient accumulators", summed)
                                                    : add_shard("/gradient accumulators", summed);
      }
      bucket.optimizer =
          AddOptimizerStates(step_, operations_, builder_.Named(name, "/optimizer"),
                             {bucket.layout.shard, bucket.layout.exact, bucket.layout.ranks}, {});
      Keep(bucket.optimizer);
      bucket.ready = builder_.AddEvent(builder_.Named(name, " ready"));
      bucket.reduced = builder_.AddEvent(builder_.Named(name, " reduced"));
    }
  }

  void AddParameters() {
    if (sharded_parameters_) {
      units_.WritePrologue(communication_, communicator_);
      return;
    }
    // The same buckets as the gradients', so that a rank's parts of both belong together.
    parameters_.reserve(buckets_.size());
    for (const ReducedBucket& bucket : buckets_) {
      BucketParameters& parameters = parameters_.emplace_back();
      parameters.all = operations_.AddRange(builder_.Named(bucket.name, "/parameters"),
                                            bucket.layout.padded(), plan_.training.parameter_dtype,
                                            Category::kParameter, bucket.layout.exact);
      Keep(parameters.all);
      parameters.updated = builder_.AddEvent(builder_.Named(bucket.name, " updated"));
      parameters.gathered = builder_.AddEvent(builder_.Named(bucket.name, " gathered"));
    }
    waited_.assign(parameters_.size(), false);
  }

  void Keep(const Range& range) { operations_.Allocate(step_.compute(), range); }

  // Stages 1 and 2: waits until the step before has updated and gathered the layer's parameters.
  void WaitForBuckets(int layer) {
    if (communicator_ == kNone) return;
    const auto wait = [this](int bucket) {
      if (waited_[bucket]) return;
      builder_.Wait(step_.compute(), parameters_[bucket].gathered);
      waited_[bucket] = true;
    };
    if (!data_parallel_.overlap) {
      for (std::size_t i = 0; i < parameters_.size(); ++i) wait(static_cast<int>(i));
      return;
    }
    for (const int tensor : step_.model().layers[layer].tensors) {
      wait(pieces_.group_of(tensor));
    }
  }

  void Reduce(int index) {
    ReducedBucket& bucket = buckets_[index];
    const DataType type = plan_.training.reduce_dtype;
    builder_.Record(step_.compute(), bucket.ready);
    if (communicator_ != kNone) {
      builder_.Wait(communication_, bucket.ready);
      const auto kind = stage_ == 0 ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter;
      if (bucket.reduction == kNone) {
        bucket.reduction = builder_.AddCollective({.kind = kind,
                                                   .communicator = communicator_,
                                                   .bytes = BytesOf(bucket.layout.padded(), type),
                                                   .data_type = type,
                                                   .average = true});
      }
      uses_ = {Writes(bucket.gradients)};
      if (bucket.gradient_shard) uses_.push_back(Writes(bucket.gradient_shard));
      if (bucket.accumulators) uses_.push_back(Writes(bucket.accumulators));
      if (keeps_full_gradients_) {
        WithReductionOfFull(bucket);
      } else {
        WithReductionToShard(bucket);
      }
      builder_.Communicate(communication_, bucket.reduction, uses_);
    } else {
      // With one rank, its accumulated gradient is the sum.
      bucket.reduced_values = Accumulated(bucket, bucket.gradients).place;
    }
    // Shards add up over the micro-batches; the replicas' sum is taken once.
    const bool over_replicas =
        replica_communicator_ != kNone && (keeps_full_gradients_ || step_.last_micro_batch());
    if (over_replicas) {
      builder_.WaitForStream(replica_stream_, communication_, bucket.ready);
      uses_ = {Writes(bucket.gradient_shard ? bucket.gradient_shard : bucket.gradients)};
      if (bucket.accumulators) uses_.push_back(Writes(bucket.accumulators));
      WithReductionOverReplicas(bucket);
      if (bucket.replica_reduction == kNone) {
        bucket.replica_reduction =
            builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                    .communicator = replica_communicator_,
                                    .bytes = BytesOf(bucket.layout.shard, type),
                                    .data_type = type,
                                    .average = true});
      }
      builder_.Communicate(replica_stream_, bucket.replica_reduction, uses_);
    }
    builder_.Record(over_replicas ? replica_stream_ : communication_, bucket.reduced);
    if (!keeps_full_gradients_ && !reduces_in_place_) {
      builder_.RecordStream(communication_, bucket.gradients.buffer());
      ReleaseGradients(bucket);
    }
  }

  void ReleaseGradients(ReducedBucket& bucket) {
    operations_.Release(bucket.gradients);
    bucket.allocated = false;
  }

  // Stages 2 and 3: this rank's part of the gradients, in the type in which backward wrote them.
  program::Elements WrittenShard(const ReducedBucket& bucket) const {
    return reduces_in_place_ ? bucket.gradients.At(OwnFirst(bucket.layout))
                             : bucket.gradient_shard.place;
  }

  // The place where gradients of micro-batches add up: accumulators of a larger type if there are
  // some, else `gradients` (the bucket's full gradients or their shard).
  static const Range& Accumulated(const ReducedBucket& bucket, const Range& gradients) {
    return bucket.accumulators ? bucket.accumulators : gradients;
  }

  // Moves the bucket's gradients without padding. `own`: `target` and `source` hold only this
  // rank's part.
  void WithMoves(const ReducedBucket& bucket, bool own, bool add, const program::Elements& target,
                 const program::Elements& source) {
    if (!builder_.describes_data_flow()) return;
    std::vector<program::Effect> moves;
    const auto append = [&](std::int64_t offset, std::int64_t elements) {
      const program::Effect move = Move(Further(target, offset), Further(source, offset), elements);
      AppendJoined(moves, add ? Added(move) : move);
    };
    if (own) {
      ForEachOwnPiece(bucket, [&](int, const TensorPiece& piece) {
        append(piece.gradient - OwnFirst(bucket.layout), piece.elements);
      });
    } else {
      for (const auto& [tensor, piece] : PiecesIn(bucket)) append(piece.gradient, piece.elements);
    }
    builder_.With(moves);
  }

  // The place from which accumulated gradients are sent, and where the result arrives. If only the
  // written type equals the reduced type, they are cast back to where they were written, as part of
  // the next operation. The textbook does not count casts.
  program::Elements WithCastToReduce(const ReducedBucket& bucket, bool own,
                                     const program::Elements& accumulated,
                                     const program::Elements& written) {
    if (accumulated.type == plan_.training.reduce_dtype ||
        written.type != plan_.training.reduce_dtype) {
      return accumulated;
    }
    WithMoves(bucket, own, false, written, accumulated);
    return written;
  }

  // All-reduce, or reduce-scatter in place, of what has accumulated over the step.
  void WithReductionOfFull(ReducedBucket& bucket) {
    const program::Elements whole = WithCastToReduce(
        bucket, false, Accumulated(bucket, bucket.gradients).place, bucket.gradients.place);
    bucket.reduced_values = Further(whole, OwnFirst(bucket.layout));
    builder_.With(Collected(bucket.reduced_values, whole, bucket.layout.padded()));
  }

  // Reduce-scatter of one micro-batch's gradients; the shards add up over micro-batches.
  void WithReductionToShard(ReducedBucket& bucket) {
    const bool first = step_.micro_batch() == 0;
    const program::Elements gradients = bucket.gradients.place;
    const program::Elements kept = WrittenShard(bucket);
    bucket.reduced_values = bucket.accumulators ? bucket.accumulators.place : kept;
    const bool to_shard = first || bucket.accumulators;
    const program::Elements received =
        to_shard ? kept : Further(gradients, OwnFirst(bucket.layout));
    builder_.With(Collected(received, gradients, bucket.layout.padded()));
    if (!bucket.accumulators && first) return;
    WithMoves(bucket, true, !first, bucket.reduced_values, received);
  }

  void WithReductionOverReplicas(ReducedBucket& bucket) {
    if (!keeps_full_gradients_) {
      bucket.reduced_values =
          WithCastToReduce(bucket, true, bucket.reduced_values, WrittenShard(bucket));
    }
    builder_.With(Collected(bucket.reduced_values, bucket.reduced_values, bucket.layout.shard));
  }

  // Appends the effects of updating this rank's part of the bucket.
  void AppendUpdates(const ReducedBucket& bucket, std::vector<program::Effect>& updates) const {
    const std::int64_t length = bucket.layout.shard;
    ForEachOwnPiece(bucket, [&](int tensor, const TensorPiece& own) {
      const std::int64_t in_shard = own.gradient - OwnFirst(bucket.layout);
      AppendJoined(updates, OptimizerUpdate(OwnParameterPlace(tensor, own),
                                            Further(bucket.reduced_values, in_shard),
                                            bucket.optimizer.At(in_shard), length, own.elements));
    });
  }

  std::span<const std::pair<int, TensorPiece>> PiecesIn(const ReducedBucket& bucket) const {
    return pieces_.InBucket(static_cast<std::size_t>(&bucket - buckets_.data()));
  }

  // Calls function(tensor, piece) for the parts of the bucket's tensors that this rank updates.
  template <typename Function>
  void ForEachOwnPiece(const ReducedBucket& bucket, Function function) const {
    const std::int64_t begin = OwnFirst(bucket.layout), end = begin + bucket.layout.shard;
    for (const auto& [tensor, piece] : PiecesIn(bucket)) {
      const std::int64_t skipped = std::max<std::int64_t>(begin - piece.gradient, 0);
      const std::int64_t last = std::min(end - piece.gradient, piece.elements);
      if (skipped >= last) continue;
      function(tensor, TensorPiece{.first = piece.first + skipped,
                                   .elements = last - skipped,
                                   .gradient = piece.gradient + skipped,
                                   .parameter = piece.parameter + skipped});
    }
  }

  // The place where this rank keeps a piece of the parameters that it updates.
  program::Elements OwnParameterPlace(int tensor, const TensorPiece& own) const {
    if (!sharded_parameters_) return ParameterPlace(tensor, own);
    const int unit = pieces_.group_of(tensor);
    return units_.own(unit).At(own.parameter - OwnFirst(units_.layout(unit)));
  }

  void AddPieces() {
    std::vector<TensorPieces::Group> buckets, units;
    for (const ReducedBucket& bucket : buckets_) {
      buckets.push_back({.tensors = bucket.tensors, .part = bucket.layout.shard});
    }
    for (const Unit& unit : units_.units()) {
      units.push_back(
          {.tensors = unit.tensors, .part = units_.layout(static_cast<int>(units.size())).shard});
    }
    pieces_.LayOut(step_.model(), buckets, units, ShardRanks(), builder_.describes_data_flow());
    latest_contribution_.assign(step_.model().tensors.size(), -1);
  }

  void AddStates() {
    const int tensors = static_cast<int>(step_.model().tensors.size());
    for (int tensor = 0; !sharded_parameters_ && tensor < tensors; ++tensor) {
      for (const TensorPiece& piece : pieces_.Of(tensor)) {
        AddParameterState(step_, ParameterPlace(tensor, piece),
                          step_.first_element(tensor) + piece.first, piece.elements);
      }
    }
    for (const ReducedBucket& bucket : buckets_) {
      ForEachOwnPiece(bucket, [&](int tensor, const TensorPiece& own) {
        const std::int64_t first = step_.first_element(tensor) + own.first;
        if (sharded_parameters_) {
          AddParameterState(step_, OwnParameterPlace(tensor, own), first, own.elements);
        }
        AddOptimizerState(step_, bucket.optimizer.At(own.gradient - OwnFirst(bucket.layout)),
                          bucket.layout.shard, first, own.elements);
      });
    }
  }

  // Updates this rank's part of the buckets in one chain of kernels. The norm covers all gradients,
  // so no update starts before all gradients are reduced.
  void ClipGradients() {
    std::int64_t elements = 0;
    std::vector<BufferUse> gradients;
    std::vector<ClippedRange> ranges;
    for (const ReducedBucket& bucket : buckets_) {
      builder_.Wait(step_.compute(), bucket.reduced);
      elements += bucket.layout.shard;
      gradients.push_back(builder_.ReadsAll(bucket.reduced_values.buffer));
      if (!builder_.describes_data_flow()) continue;
      ForEachOwnPiece(bucket, [&](int tensor, const TensorPiece& own) {
        ranges.push_back({Further(bucket.reduced_values, own.gradient - OwnFirst(bucket.layout)),
                          own.elements, tied_.Counts(tensor)});
      });
    }
    clipping_.Write(static_cast<std::int64_t>(step_.model().tensors.size()), elements,
                    plan_.training.gradient_dtype, gradients, ranges);
  }

  void Update(std::span<const int> buckets) {
    std::int64_t elements = 0;
    std::vector<BufferUse>& uses = uses_;
    uses.clear();
    std::vector<program::Effect> updates;
    for (const int index : buckets) {
      const ReducedBucket& bucket = buckets_[index];
      builder_.Wait(step_.compute(), bucket.reduced);
      elements += bucket.layout.shard;
      uses.push_back(builder_.ReadsAll(bucket.reduced_values.buffer));
      if (builder_.describes_data_flow()) AppendUpdates(bucket, updates);
      uses.push_back(Writes(bucket.optimizer));
      if (!sharded_parameters_) uses.push_back(Writes(parameters_[index].all));
    }
    for (std::size_t unit = 0; unit < units_.units().size(); ++unit) {
      uses.push_back(Writes(units_.own(static_cast<int>(unit))));
    }
    const std::vector<Index>& kernels =
        buckets.size() == 1
            ? KernelsOfBucket(buckets_[buckets.front()].layout)
            : updates_.emplace_back(Updates{.kernels = AddUpdateKernels(elements)}).kernels;
    const UseRange all = builder_.AddUses(uses);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (i + 1 == kernels.size()) builder_.With(updates);
      builder_.Run(step_.compute(), kernels[i], all);
    }
  }

  std::vector<Index> AddUpdateKernels(std::int64_t elements) {
    std::vector<Index> kernels;
    for (UpdateKernel& update :
         UpdateKernels(step_.model(), plan_.training, plan_.software.torch, elements)) {
      kernels.push_back(builder_.AddKernel(std::move(update.kernel)));
    }
    return kernels;
  }

  // The kernels that update a bucket; buckets of equal size share them. Valid until the next call.
  const std::vector<Index>& KernelsOfBucket(const FlatLayout& layout) {
    const std::int64_t elements = layout.exact;
    const auto known = std::find_if(updates_.begin(), updates_.end(), [&](const Updates& updates) {
      return updates.of_bucket == elements;
    });
    if (known != updates_.end()) return known->kernels;
    return updates_
        .emplace_back(Updates{.of_bucket = elements, .kernels = AddUpdateKernels(layout.shard)})
        .kernels;
  }

  // Stages 1 and 2: gathers the parts of the bucket's parameters that other ranks have updated.
  void GatherUpdated(int index) {
    if (communicator_ == kNone) return;
    const BucketParameters& parameters = parameters_[index];
    builder_.WaitForStream(communication_, step_.compute(), parameters.updated);
    operations_.AllGather(communication_, communicator_, parameters.all,
                          parameters.all.Share(ShardIndex(), buckets_[index].layout.shard));
    builder_.Record(communication_, parameters.gathered);
  }

  // The kernels that update one bucket, or several.
  struct Updates {
    std::optional<std::int64_t> of_bucket{};  // so many elements
    std::vector<Index> kernels;
  };

  const plan::DataParallel& data_parallel_;
  const ProcessGroups groups_;
  const int stage_;  // 0 where the shard group is one rank: there is nothing to shard
  const bool sharded_parameters_;
  const bool keeps_full_gradients_;
  // Stages 2 and 3: without overlap, a micro-batch's gradients all exist when the first is reduced.
  // Where micro-batches are not summed, the rank's part of them is its shard until the update.
  // Separate buffers for shards would make these stages need more memory than stage 1.
  const bool reduces_in_place_;
  const DataType written_type_;  // of what backward writes
  TensorPieces pieces_;
  GatheredUnits units_;  // stage 3
  GradientClipping clipping_;
  TiedGradients tied_;

  StreamId communication_ = 0, replica_stream_ = 0;
  Index communicator_ = kNone, replica_communicator_ = kNone;
  Index layer_done_ = kNone, update_done_ = kNone;
  std::vector<Updates> updates_;
  std::vector<BufferUse> uses_;  // of the operation being written
  std::vector<int> order_;       // of the tensors in buckets
  std::vector<ReducedBucket> buckets_;
  std::vector<BucketParameters> parameters_;       // by bucket, up to stage 2
  std::vector<std::int64_t> latest_contribution_;  // by tensor: the micro-batch; -1: none yet
  std::vector<bool> waited_;       // stages 1 and 2: this step waited for the bucket
  std::vector<int> deferred_;      // overlap: false: buckets to reduce after the backward
  std::vector<int> tied_buckets_;  // to reduce when the stages' parts have been added up
};

}  // namespace

program::Program LowerReference(const scenario::Scenario& scenario, const LowerOptions& options) {
  return LowerWith<Reference>(scenario, options);
}

}  // namespace stepcast::lowering
