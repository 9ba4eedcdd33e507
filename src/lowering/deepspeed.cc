#include "src/lowering/deepspeed.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "src/lowering/buckets.h"
#include "src/lowering/deepspeed_buckets.h"
#include "src/lowering/deepspeed_chunks.h"
#include "src/lowering/deepspeed_update.h"
#include "src/lowering/effects.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/tied_gradients.h"
#include "src/lowering/training_step.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

// A bucket as it is sent: beside one of DeepSpeedBuckets.
struct SentBucket {
  Range collected;  // the bucket's parts put together by owners
  Range sent;       // in the type that is sent, where that is another
  // Elements of tensors that reach into the rank's part, whole, and of what it owns.
  std::int64_t held = 0, own = 0;
  Range widened;  // offloaded: what it owns, in FP32
};

class DeepSpeed final : public ShardingStrategy {
 public:
  explicit DeepSpeed(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        plan_(step.plan()),
        settings_(plan_.data_parallel.deepspeed),
        stage_(plan_.data_parallel.zero_stage),
        overlap_(stage_ >= 1 && plan_.data_parallel.overlap),
        groups_(ProcessGroupsOf(plan_, step.rank())),
        type_(plan_.training.parameter_dtype),
        offload_(step),
        operations_(builder_),
        gradients_(step, operations_, type_),
        chunks_(step, operations_),
        tied_(step) {
    const std::int64_t shards = stage_ == 0 ? 1 : Ranks();
    flat_ = FlatOrder(step.model(), shards, settings_.round_robin_gradients && stage_ > 0);
    if (stage_ > 0) own_first_ = groups_.data.Index(groups_.rank) * flat_.part();
  }

  void WritePrologue() override {
    reduction_ = overlap_ ? builder_.AddStream("reduction") : step_.compute();
    communicator_ = builder_.AddCommunicator("data", groups_.data);
    tied_.WritePrologue();
    AllocateFrameworkWorkspaces(step_);
    const std::int64_t count = step_.model().parameter_count();
    parameters_ = Add("flat parameters", flat_.padded(), type_, Category::kParameter, count);
    operations_.Allocate(step_.compute(), parameters_);
    update_.emplace(step_, communicator_);
    offload_.WritePrologue();
    if (!offload_.optimizer()) {
      group_ = update_->AddGroup("", flat_.part(), flat_.part() - count / flat_.ranks);
    }
    for (std::size_t t = 0; t < step_.model().tensors.size(); ++t) {
      const int tensor = static_cast<int>(t);
      AddParameterState(step_, Parameter(tensor).place, step_.first_element(tensor),
                        Elements(tensor));
    }
    if (!offload_.optimizer())
      ForEachOwn([&](int tensor, std::int64_t first, std::int64_t elements) {
        update_->AddState(group_, OwnOffset(tensor, first), step_.first_element(tensor) + first,
                          elements);
      });
    held_ = flat_.LargestHolding();
    bucket_ready_ = builder_.AddEvent("bucket ready");
    bucket_reduced_ = builder_.AddEvent("bucket reduced");
    AddBuckets();
  }

  void BeforeForward(int) override {}
  void AfterForward(int) override {}
  void BeforeBackward(int) override {}
  void AfterBackward(int) override {}

  void AppendParameterReads(int layer, std::vector<BufferUse>& uses) override {
    for (const int tensor : step_.model().layers[layer].tensors) {
      uses.push_back(Reads(Parameter(tensor)));
    }
  }

  void WriteGradient(int /*layer*/, int tensor) override {
    gradients_.Write(tensor, Parameter(tensor).place);
  }

  void GradientReady(int tensor) override {
    gradients_.Complete(tensor);
    if (stage_ == 0) return;
    // The pipeline's engine makes them when it reduces.
    if (step_.stage().stages() == 1) MakeBucketBuffers();
    if (!accumulators_.empty()) Accumulate(tensor);
    if (ReducesInHooks() && Reduces()) Fill(tensor);
  }

  void EndBackward() override {
    if (step_.last_micro_batch()) {
      tied_.AddUp(step_.compute(), [this](int tensor) {
        return accumulators_.empty() ? gradients_.place(tensor)
                                     : accumulators_[static_cast<std::size_t>(tensor)].place;
      });
    }
    if (stage_ == 0) {
      if (step_.last_micro_batch()) chunks_.Reduce(gradients_);
      return;
    }
    if (!Reduces()) return;
    MakeBucketBuffers();
    if (!ReducesInHooks()) {
      for (const int tensor : reduce_order_) Fill(tensor);
    }
    Send(next_bucket_);
    next_bucket_ = 0;
    filled_ = 0;
    buffer_ = 0;
    if (overlap_) {  // torch.cuda.synchronize()
      builder_.Record(reduction_, bucket_reduced_);
      builder_.Wait(step_.compute(), bucket_reduced_);
      builder_.HostWait(bucket_reduced_);
    }
    for (const Range& buffer : bucket_buffers_) operations_.Release(buffer);
    has_bucket_buffers_ = false;
    if (has_further_) {
      // Added to what earlier micro-batches left.
      operations_.Reads(kept_further_);
      operations_.Updates(kept_);
      std::vector<program::Effect> moves;
      ForEachOwn([&](int tensor, std::int64_t first, std::int64_t elements) {
        const std::int64_t offset = OwnOffset(tensor, first);
        AppendJoined(moves, Added(Move(kept_.At(offset), kept_further_.At(offset), elements)));
      });
      builder_.With(moves);
      operations_.Run(step_.compute(), "accumulate_gradient");
      operations_.Release(kept_further_);
      has_further_ = false;
    }
  }

  void WriteUpdate() override {
    const StreamId compute = step_.compute();
    for (const Range& accumulator : accumulators_) operations_.Release(accumulator);
    std::fill(has_accumulator_.begin(), has_accumulator_.end(), false);
    if (offload_.optimizer()) {
      UpdateOnHost();
      GatherParameters();
      return;
    }
    std::vector<BufferUse> sources;
    if (stage_ == 0) {
      for (std::size_t t = 0; t < step_.model().tensors.size(); ++t) {
        sources.push_back(Reads(gradients_.range(static_cast<int>(t))));
      }
    } else {
      sources.push_back(Reads(kept_));
    }
    update_->CheckOverflow(compute, held_.tensors, held_.elements, sources);
    std::vector<program::Effect> moves, updates, squares;
    ForEachOwn([&](int tensor, std::int64_t first, std::int64_t elements) {
      const std::int64_t offset = OwnOffset(tensor, first);
      const DataType kept = plan_.training.gradient_dtype;
      const program::Elements source =
          stage_ == 0 ? gradients_.range(tensor).At(first) : kept_.At(offset);
      if (tied_.Counts(tensor)) {
        squares.push_back(update_->SquaresOf(source, elements, stage_ == 0 ? Ranks() : 1));
      }
      AppendJoined(moves, Move(At(group_.flat, offset, kept), source, elements));
      AppendJoined(updates,
                   update_->UpdateOf(group_, Parameter(tensor).At(first), offset, elements));
    });
    update_->TakeNorm(held_.tensors, held_.elements, sources, squares, true);
    update_->Flatten(group_, sources, moves);
    if (stage_ == 0) {
      for (std::size_t t = 0; t < step_.model().tensors.size(); ++t) {
        gradients_.Release(static_cast<int>(t));
      }
    } else {
      operations_.Release(kept_);
      has_kept_ = false;
    }
    update_->Apply(group_, {OwnParameters()}, updates);
    GatherParameters();
  }

 private:
  void GatherParameters() {
    if (stage_ == 0 || communicator_ == kNone) return;
    operations_.AllGather(step_.compute(), communicator_, parameters_,
                          parameters_.Part(own_first_, flat_.part()));
  }

  // The gradients are there: their norm was taken on the way. The updated part comes back in the
  // parameters' type.
  void UpdateOnHost() {
    const StreamId compute = step_.compute();
    update_->AgreeOnScalar();
    builder_.Record(compute, bucket_reduced_);
    builder_.HostWait(bucket_reduced_);
    offload_.Update(flat_.part());
    offload_.ToDevice(compute, BytesOf(flat_.part(), type_), {OwnParameters()});
  }

  std::int64_t Ranks() const { return static_cast<std::int64_t>(groups_.data.size()); }
  std::int64_t Elements(int tensor) const { return step_.model().tensors[tensor].elements; }
  Range Parameter(int tensor) const {
    return parameters_.Part(flat_.offsets[tensor], Elements(tensor));
  }
  BufferUse OwnParameters() const { return Writes(parameters_.Part(own_first_, flat_.part())); }
  // Where an element of this rank's part of a tensor lies in the rank's part of the whole.
  std::int64_t OwnOffset(int tensor, std::int64_t first) const {
    return flat_.offsets[tensor] + first - own_first_;
  }

  // Calls visit(tensor, first element in it, elements) for what this rank owns.
  template <typename Visit>
  void ForEachOwn(Visit visit) const {
    if (!builder_.describes_data_flow()) return;
    for (const int tensor : flat_.tensors) VisitOwn(tensor, visit);
  }
  template <typename Visit>
  void VisitOwn(int tensor, Visit visit) const {
    const std::int64_t first = std::max<std::int64_t>(0, own_first_ - flat_.offsets[tensor]);
    const std::int64_t last =
        std::min(Elements(tensor), own_first_ + flat_.part() - flat_.offsets[tensor]);
    if (first < last) visit(tensor, first, last - first);
  }
  // Gradients are reduced as they become ready; else after backward.
  bool ReducesInHooks() const { return stage_ == 2 || overlap_; }
  // In this micro-batch.
  bool Reduces() const { return stage_ == 2 || step_.last_micro_batch(); }

  Range Add(const char* name, std::int64_t elements, DataType type, Category category,
            std::int64_t exact) {
    return operations_.AddRange({.first = builder_.AddText(name)}, elements, type, category, exact);
  }
  Range Add(const char* name, std::int64_t elements, DataType type, Category category) {
    return Add(name, elements, type, category, elements);
  }

  void AddBuckets() {
    if (stage_ == 0) {
      if (communicator_ != kNone) chunks_.AddChunks(communicator_, Ranks());
      return;
    }
    const DataType kept = plan_.training.gradient_dtype;
    const auto& tensors = step_.model().tensors;
    reduce_order_ = ReducesInHooks()
                        ? GradientReadyOrder(step_.model(), step_.works(), step_.work_of_layers())
                        : RegistrationOrder();
    for (std::size_t i = 0; i < (overlap_ ? 2 : 1); ++i) {
      bucket_buffers_.push_back(
          operations_.AddRange({.first = builder_.AddNumbered("gradient bucket ", i)},
                               settings_.reduce_bucket_size, type_, Category::kGradient));
    }
    for (std::size_t t = 0; kept != type_ && t < tensors.size(); ++t) {
      accumulators_.push_back(operations_.AddRange(builder_.Named(tensors[t].name, ".grad_accum"),
                                                   tensors[t].elements, kept, Category::kGradient));
    }
    has_accumulator_.assign(accumulators_.size(), false);
    if (offload_.optimizer()) {
      std::int64_t largest = 0;
      for (const model::Tensor& tensor : tensors) largest = std::max(largest, tensor.elements);
      transit_ = Add("gradient from the host", largest, type_, Category::kGradient);
      operations_.Allocate(step_.compute(), transit_);
    }
    kept_ = Add("gradients in partition", held_.elements, kept, Category::kGradient);
    if (stage_ == 2 && plan_.training.gradient_accumulation > 1) {
      kept_further_ =
          Add("gradients in partition (next)", held_.elements, kept, Category::kGradient);
    }
    buckets_ = BucketsOf(step_.model(), reduce_order_, flat_, settings_.reduce_bucket_size);
    slot_.assign(tensors.size(), 0);
    for (const DeepSpeedBucket& bucket : buckets_) AddSentBucket(bucket);
  }

  std::vector<int> RegistrationOrder() const {
    std::vector<int> order(step_.model().tensors.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  void AddSentBucket(const DeepSpeedBucket& bucket) {
    const DataType sent_type = plan_.training.reduce_dtype;
    SentBucket& sent = sent_.emplace_back();
    std::int64_t offset = 0;
    for (const int tensor : bucket.tensors) {
      slot_[tensor] = offset;
      offset += Elements(tensor);
    }
    // A gradient that was added up in FP32 is cast before it is sent.
    const bool cast_first = bucket.extra_large && plan_.training.gradient_dtype != type_;
    if ((settings_.reduce_scatter && bucket.parts > 1) || cast_first) {
      sent.collected = Add("flat bucket", bucket.elements, type_, Category::kCommunication);
    }
    if (sent_type != type_ && communicator_ != kNone) {
      sent.sent = Add("bucket as sent", bucket.elements, sent_type, Category::kCommunication);
    }
    // Tensors that reach into the rank's part are copied whole.
    const double share =
        static_cast<double>(bucket.elements) / static_cast<double>(step_.model().parameter_count());
    sent.held = static_cast<std::int64_t>(share * static_cast<double>(held_.elements));
    sent.own = (bucket.elements + Ranks() - 1) / Ranks();
    if (!offload_.optimizer()) return;
    sent.widened = Add("FP32 gradients", sent.own, DataType::kFp32, Category::kGradient);
  }

  void MakeBucketBuffers() {
    if (has_bucket_buffers_) return;
    for (const Range& buffer : bucket_buffers_) operations_.Allocate(step_.compute(), buffer);
    has_bucket_buffers_ = true;
  }

  // grad_accum: FP32 gradients beside the 16-bit ones, which go.
  void Accumulate(int tensor) {
    const Range& sum = accumulators_[tensor];
    const Range& gradient = gradients_.range(tensor);
    const bool first = !has_accumulator_[tensor];
    has_accumulator_[tensor] = true;
    if (first) {
      operations_.Allocate(step_.compute(), sum);
      operations_.Copy(step_.compute(), "to_accumulated_gradient", sum, gradient);
    } else {
      // Cast up, then added.
      operations_.Reads(gradient);
      operations_.Writes(sum);
      operations_.Traffic(gradient.size() + 2 * sum.size(), 2 * sum.size());
      if (builder_.describes_data_flow()) {
        builder_.With(Added(Move(sum.place, gradient.place, sum.elements)));
      }
      operations_.Run(step_.compute(), "accumulate_gradient");
    }
    gradients_.Release(tensor);
  }

  // Puts a gradient that is complete into its bucket, after sending the one before off.
  void Fill(int tensor) {
    if (filled_ == buckets_[next_bucket_].tensors.size()) {
      Send(next_bucket_++);
      filled_ = 0;
      if (overlap_) buffer_ = 1 - buffer_;
    }
    ++filled_;
    const DeepSpeedBucket& bucket = buckets_[next_bucket_];
    if (bucket.extra_large) return;
    const bool apart = !accumulators_.empty();
    const Range& source = apart ? accumulators_[tensor] : gradients_.range(tensor);
    const Range slot = bucket_buffers_[buffer_].Part(slot_[tensor], Elements(tensor));
    operations_.Reads(source);
    operations_.Writes(slot);
    // Accumulated ones are cast down on the way.
    if (apart) operations_.Traffic(source.size() + slot.size(), 2 * slot.size());
    operations_.Moves(slot, source, 1.0 / static_cast<double>(Ranks()));
    operations_.Run(step_.compute(), "copy_to_bucket");
    if (!apart) gradients_.Release(tensor);
  }

  // Reduces a bucket, and puts away what this rank owns of it.
  void Send(std::size_t index) {
    const DeepSpeedBucket& bucket = buckets_[index];
    const SentBucket& sent = sent_[index];
    if (overlap_) {
      // Compute goes on when the bucket before has been reduced: its buffer is filled next.
      builder_.WaitForStream(reduction_, step_.compute(), bucket_ready_);
      builder_.WaitForStream(step_.compute(), reduction_, bucket_reduced_);
    }
    // A gradient that is larger than a bucket lies where it was made, and is not divided yet.
    const int alone = bucket.extra_large ? bucket.tensors.front() : -1;
    const bool apart = bucket.extra_large && !accumulators_.empty();
    const Range whole = !bucket.extra_large ? bucket_buffers_[buffer_].Part(0, bucket.elements)
                        : apart             ? accumulators_[alone]
                                            : gradients_.range(alone);
    const Bytes size = BytesOf(bucket.elements, type_);
    double scale = bucket.extra_large ? 1.0 / static_cast<double>(Ranks()) : 1.0;
    operations_.Writes(whole);
    operations_.Traffic(size, size);
    operations_.Run(reduction_, "divide");
    Range place = whole;
    if (sent.collected) {
      operations_.Allocate(reduction_, sent.collected);
      operations_.Reads(whole);
      operations_.Writes(sent.collected);
      operations_.Traffic(size, size);
      operations_.Moves(sent.collected, whole, std::exchange(scale, 1.0));
      operations_.Run(reduction_, "flatten");
      place = sent.collected;
    }
    const Range before_cast = place;
    if (sent.sent) {
      operations_.Allocate(reduction_, sent.sent);
      operations_.Copy(reduction_, "cast_bucket", sent.sent, place, std::exchange(scale, 1.0));
      place = sent.sent;
    }
    if (communicator_ != kNone) {
      operations_.AllReduce(reduction_, communicator_, place, scale != 1.0);
    }
    if (sent.sent) {
      operations_.Copy(reduction_, "cast_bucket", before_cast, sent.sent);
      operations_.Release(sent.sent);
    }
    if (sent.collected) {
      const Bytes own((size.count() + Ranks() - 1) / Ranks());
      operations_.Reads(sent.collected);
      operations_.Writes(whole);
      operations_.Traffic(own, own);
      WithOwnOf(bucket, whole.place, sent.collected.place, false);
      operations_.Run(reduction_, "copy_own_gradients");
      operations_.Release(sent.collected);
    }
    if (offload_.optimizer()) {
      KeepOnHost(sent, whole);
    } else {
      Keep(bucket, sent, whole);
    }
    if (alone >= 0 && !apart) {
      if (overlap_) builder_.RecordStream(reduction_, whole.buffer());
      gradients_.Release(alone);
    }
  }

  // What this rank owns of a bucket, from one place of it to another; or to where own gradients are
  // kept.
  void WithOwnOf(const DeepSpeedBucket& bucket, const program::Elements& target,
                 const program::Elements& source, bool to_kept) {
    if (!builder_.describes_data_flow()) return;
    std::vector<program::Effect> moves;
    for (const int tensor : bucket.tensors) {
      VisitOwn(tensor, [&](int, std::int64_t first, std::int64_t elements) {
        const std::int64_t at = slot_[tensor] + first;
        AppendJoined(moves, Move(Further(target, to_kept ? OwnOffset(tensor, first) : at),
                                 Further(source, at), elements));
      });
    }
    builder_.With(moves);
  }

  // Gradients add up on the device, those of earlier micro-batches coming back for it; after the
  // last one FP32 values of the own part go to the host, and their norm is taken.
  void KeepOnHost(const SentBucket& sent, const Range& whole) {
    const Bytes held = BytesOf(sent.held, type_);
    if (step_.micro_batch() > 0) {
      if (overlap_) builder_.WaitForStream(reduction_, step_.compute(), bucket_ready_);
      offload_.ToDevice(reduction_, held, {Writes(transit_)});
      operations_.Reads(transit_);
      operations_.Writes(whole);
      operations_.Traffic(2 * held, held);
      operations_.Run(reduction_, "accumulate_gradient");
    }
    if (!step_.last_micro_batch()) {
      offload_.ToHost(reduction_, held, {Reads(whole)});
      return;
    }
    operations_.Reads(whole);
    operations_.Traffic(Bytes(10 * sent.own), Bytes(8 * sent.own));  // to FP64, and its norm
    operations_.Run(reduction_, "norm");
    operations_.Allocate(reduction_, sent.widened);
    operations_.Reads(whole);
    operations_.Writes(sent.widened);
    operations_.Traffic(BytesOf(sent.own, type_), sent.widened.size());
    operations_.Run(reduction_, "cast_gradients");
    offload_.ToHost(reduction_, sent.widened.size(), {Reads(sent.widened)});
    operations_.Release(sent.widened);
  }

  void Keep(const DeepSpeedBucket& bucket, const SentBucket& sent, const Range& whole) {
    const bool further = has_kept_ && kept_in_ != step_.micro_batch();
    const Range& kept = further ? kept_further_ : kept_;
    if (!has_kept_) {
      // The reduction's stream fills it; compute takes it over, so compute owns it.
      operations_.Allocate(step_.compute(), kept_);
      has_kept_ = true;
      kept_in_ = step_.micro_batch();
      WaitForAllocation();
    } else if (further && !has_further_) {
      operations_.Allocate(step_.compute(), kept_further_);
      has_further_ = true;
      WaitForAllocation();
    }
    operations_.Reads(whole);
    operations_.Writes(kept);
    operations_.Traffic(BytesOf(sent.held, type_), BytesOf(sent.held, kept.type()));
    WithOwnOf(bucket, kept.place, whole.place, true);
    operations_.Run(reduction_, "copy_grads_in_partition");
  }

  // Memory that compute has given back may still be in use there.
  void WaitForAllocation() {
    if (overlap_) builder_.WaitForStream(reduction_, step_.compute(), bucket_ready_);
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Plan& plan_;
  const plan::DeepSpeed& settings_;
  const int stage_;
  const bool overlap_;
  const ProcessGroups groups_;
  const DataType type_;  // of parameters and of the gradients that backward makes

  StreamId reduction_ = 0;
  Index communicator_ = kNone;
  FlatOrder flat_;
  std::int64_t own_first_ = 0;  // where this rank's part of the flat tensor begins
  Holding held_;
  Range parameters_;
  std::optional<DeepSpeedUpdate> update_;
  UpdateGroup group_;
  Index bucket_ready_ = kNone, bucket_reduced_ = kNone;  // events

  HostOffload offload_;
  Range transit_;  // where gradients come back from the host

  Operations operations_;
  LocalGradients gradients_;
  ChunkedReduction chunks_;  // stage 0
  TiedGradients tied_;
  std::vector<Range> accumulators_;  // by tensor; empty: 16-bit gradients add up themselves
  std::vector<bool> has_accumulator_;
  std::vector<int> reduce_order_;
  std::vector<DeepSpeedBucket> buckets_;
  std::vector<SentBucket> sent_;
  std::vector<std::int64_t> slot_;  // by tensor: elements in its bucket
  std::vector<Range> bucket_buffers_;
  bool has_bucket_buffers_ = false;
  std::size_t next_bucket_ = 0;  // being filled
  std::size_t filled_ = 0;       // its tensors
  std::size_t buffer_ = 0;       // which of the two
  Range kept_, kept_further_;
  bool has_kept_ = false, has_further_ = false;
  std::int64_t kept_in_ = 0;  // the micro-batch that `kept_` was made in
};

}  // namespace

program::Program LowerDeepSpeed(const scenario::Scenario& scenario, const LowerOptions& options) {
  TrainingStep step(scenario, options);
  DeepSpeed strategy(step);
  return step.Write(strategy);
}

}  // namespace stepcast::lowering
