#include "src/lowering/deepspeed.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/lowering/buckets.h"
#include "src/lowering/deepspeed_buckets.h"
#include "src/lowering/deepspeed_update.h"
#include "src/lowering/effects.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/memory_kernel.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/training_step.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

// A bucket as it is sent: kernels and buffers of one of DeepSpeedBuckets.
struct SentBucket {
  Index divide = kNone, collect = kNone, cast = kNone, cast_back = kNone;  // kernels
  Index copy_own = kNone, keep = kNone;                                    // kernels
  // Offloaded: tensors that reach into the rank's part, whole, and what it owns of them.
  Bytes held{};
  std::int64_t own = 0;
  Index add = kNone, widen = kNone, square = kNone;  // kernels
  Index widened = kNone;                             // buffer
  Index collected = kNone;  // buffer: the bucket's parts put together by owners
  Index sent = kNone;       // buffer: in the type that is sent, where that is another
};

class DeepSpeed final : public Technique {
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
        gradients_(step, operations_, type_) {
    const std::int64_t shards = stage_ == 0 ? 1 : Ranks();
    flat_ = FlatOrder(step.model(), shards, settings_.round_robin_gradients && stage_ > 0);
    if (stage_ > 0) own_first_ = groups_.rank * flat_.part();
  }

  void WritePrologue() override {
    reduction_ = overlap_ ? builder_.AddStream("reduction") : step_.compute();
    communicator_ = builder_.AddCommunicator("data", groups_.data);
    AllocateFrameworkWorkspaces(step_, {step_.compute()});
    const std::int64_t count = step_.model().parameter_count();
    parameters_ = builder_.AddBuffer("flat parameters", BytesOf(flat_.padded(), type_),
                                     Category::kParameter, BytesOf(flat_.padded() - count, type_));
    builder_.Allocate(step_.compute(), parameters_);
    update_.emplace(step_, communicator_);
    offload_.WritePrologue();
    if (!offload_.optimizer()) {
      group_ = update_->AddGroup("", flat_.part(), flat_.part() - count / flat_.ranks);
    }
    for (std::size_t t = 0; t < step_.model().tensors.size(); ++t) {
      const int tensor = static_cast<int>(t);
      AddParameterState(step_, ParameterPlace(tensor), step_.first_element(tensor),
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
      const program::Elements place = ParameterPlace(tensor);
      uses.push_back(Reads(place.buffer, place.offset, BytesOf(Elements(tensor), type_)));
    }
  }

  void WriteGradient(int /*layer*/, int tensor) override {
    gradients_.Write(tensor, ParameterPlace(tensor));
  }

  void GradientReady(int tensor) override {
    gradients_.Complete(tensor);
    if (stage_ == 0) return;
    MakeBucketBuffers();
    if (!accumulators_.empty()) Accumulate(tensor);
    if (ReducesInHooks() && Reduces()) Fill(tensor);
  }

  void EndBackward() override {
    if (stage_ == 0) {
      if (step_.last_micro_batch()) ReduceAfterBackward();
      return;
    }
    if (!Reduces()) return;
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
    for (const Index buffer : bucket_buffers_) builder_.Release(buffer);
    has_bucket_buffers_ = false;
    if (has_further_) {
      // Added to what earlier micro-batches left.
      ForEachOwnMoved(kept_, kept_further_,
                      [&](program::Effect move) { builder_.With(Added(std::move(move))); });
      builder_.Run(step_.compute(), add_kept_,
                   {builder_.ReadsAll(kept_further_), builder_.WritesAll(kept_)});
      builder_.Release(kept_further_);
      has_further_ = false;
    }
  }

  void WriteUpdate() override {
    const StreamId compute = step_.compute();
    for (std::size_t t = 0; t < accumulators_.size(); ++t) builder_.Release(accumulators_[t]);
    std::fill(has_accumulator_.begin(), has_accumulator_.end(), false);
    if (offload_.optimizer()) {
      UpdateOnHost();
      GatherParameters();
      return;
    }
    std::vector<BufferUse> sources;
    if (stage_ == 0) {
      for (std::size_t t = 0; t < step_.model().tensors.size(); ++t) {
        sources.push_back(builder_.ReadsAll(gradients_.buffer(static_cast<int>(t))));
      }
    } else {
      sources.push_back(builder_.ReadsAll(kept_));
    }
    update_->CheckOverflow(compute, held_.tensors, held_.elements, sources);
    std::vector<program::Effect> moves, updates, squares;
    ForEachOwn([&](int tensor, std::int64_t first, std::int64_t elements) {
      const std::int64_t offset = OwnOffset(tensor, first);
      const DataType kept = plan_.training.gradient_dtype;
      const program::Elements source =
          stage_ == 0 ? Further(gradients_.place(tensor), first) : At(kept_, offset, kept);
      squares.push_back(update_->SquaresOf(source, elements, stage_ == 0 ? Ranks() : 1));
      AppendJoined(moves, Move(At(group_.flat, offset, kept), source, elements));
      AppendJoined(updates, update_->UpdateOf(group_, Further(ParameterPlace(tensor), first),
                                              offset, elements));
    });
    update_->TakeNorm(held_.tensors, held_.elements, sources, squares, true);
    update_->Flatten(group_, sources, moves);
    if (stage_ == 0) {
      for (std::size_t t = 0; t < step_.model().tensors.size(); ++t) {
        gradients_.Release(static_cast<int>(t));
      }
    } else {
      builder_.Release(kept_);
      has_kept_ = false;
    }
    update_->Apply(group_, {OwnParameters()}, updates);
    GatherParameters();
  }

 private:
  void GatherParameters() {
    if (gather_ == kNone) return;
    builder_.With(
        Collected(At(parameters_, 0, type_), At(parameters_, own_first_, type_), flat_.padded()));
    builder_.Communicate(step_.compute(), gather_, {builder_.WritesAll(parameters_)});
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
  program::Elements ParameterPlace(int tensor) const {
    return At(parameters_, flat_.offsets[tensor], type_);
  }
  BufferUse OwnParameters() const {
    return Writes(parameters_, BytesOf(own_first_, type_), BytesOf(flat_.part(), type_));
  }
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
  // The rank's own gradients from one of the buffers that keep them to another.
  template <typename Visit>
  void ForEachOwnMoved(Index target, Index source, Visit visit) const {
    std::vector<program::Effect> moves;
    const DataType kept = plan_.training.gradient_dtype;
    ForEachOwn([&](int tensor, std::int64_t first, std::int64_t elements) {
      const std::int64_t offset = OwnOffset(tensor, first);
      AppendJoined(moves, Move(At(target, offset, kept), At(source, offset, kept), elements));
    });
    for (program::Effect& move : moves) visit(std::move(move));
  }

  // Gradients are reduced as they become ready; else after backward.
  bool ReducesInHooks() const { return stage_ == 2 || overlap_; }
  // In this micro-batch.
  bool Reduces() const { return stage_ == 2 || step_.last_micro_batch(); }

  Index AddMemoryKernel(const char* name, Bytes read, Bytes written) {
    return builder_.AddKernel(MemoryKernel(name, type_, read, written));
  }

  void AddBuckets() {
    const DataType kept = plan_.training.gradient_dtype;
    const auto tensors = step_.model().tensors.size();
    if (stage_ == 0) {
      AddStageZeroBuckets();
      return;
    }
    reduce_order_ =
        ReducesInHooks() ? GradientReadyOrder(step_.model(), step_.works()) : RegistrationOrder();
    for (int i = 0; i < (overlap_ ? 2 : 1); ++i) {
      bucket_buffers_.push_back(builder_.AddBuffer("gradient bucket " + std::to_string(i),
                                                   BytesOf(settings_.reduce_bucket_size, type_),
                                                   Category::kGradient));
    }
    copies_.resize(tensors);
    accumulate_.resize(tensors);
    accumulate_more_.resize(tensors);
    for (std::size_t t = 0; t < tensors; ++t) {
      const Bytes size = BytesOf(step_.model().tensors[t].elements, type_);
      const Bytes wide = BytesOf(step_.model().tensors[t].elements, kept);
      if (kept == type_) {
        copies_[t] = AddMemoryKernel("copy_to_bucket", size, size);
        continue;
      }
      accumulators_.push_back(builder_.AddBuffer(step_.model().tensors[t].name + ".grad_accum",
                                                 wide, Category::kGradient));
      // Cast up, then added; cast down on the way to the bucket.
      accumulate_[t] = AddMemoryKernel("to_accumulated_gradient", size, wide);
      accumulate_more_[t] = AddMemoryKernel("accumulate_gradient", size + 2 * wide, 2 * wide);
      copies_[t] = AddMemoryKernel("copy_to_bucket", wide + size, 2 * size);
    }
    has_accumulator_.assign(accumulators_.size(), false);
    if (offload_.optimizer()) {
      std::int64_t largest = 0;
      for (const model::Tensor& tensor : step_.model().tensors) {
        largest = std::max(largest, tensor.elements);
      }
      transit_ = builder_.AddBuffer("gradient from the host", BytesOf(largest, type_),
                                    Category::kGradient);
      builder_.Allocate(step_.compute(), transit_);
    }
    kept_ = builder_.AddBuffer("gradients in partition", BytesOf(held_.elements, kept),
                               Category::kGradient);
    if (stage_ == 2 && plan_.training.gradient_accumulation > 1) {
      kept_further_ = builder_.AddBuffer("gradients in partition (next)",
                                         BytesOf(held_.elements, kept), Category::kGradient);
      add_kept_ = AddMemoryKernel("accumulate_gradient", 2 * builder_.SizeOf(kept_),
                                  builder_.SizeOf(kept_));
    }
    buckets_ = BucketsOf(step_.model(), reduce_order_, flat_, settings_.reduce_bucket_size);
    slot_.assign(tensors, 0);
    for (const DeepSpeedBucket& bucket : buckets_) AddSentBucket(bucket);
    if (communicator_ == kNone) return;
    gather_ = builder_.AddCollective({.kind = CollectiveKind::kAllGather,
                                      .communicator = communicator_,
                                      .bytes = BytesOf(flat_.padded(), type_),
                                      .data_type = type_});
  }

  std::vector<int> RegistrationOrder() const {
    std::vector<int> order(step_.model().tensors.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  void AddSentBucket(const DeepSpeedBucket& bucket) {
    const DataType sent_type = plan_.training.reduce_dtype;
    const Bytes size = BytesOf(bucket.elements, type_);
    SentBucket& sent = sent_.emplace_back();
    std::int64_t offset = 0;
    for (const int tensor : bucket.tensors) {
      slot_[tensor] = offset;
      offset += Elements(tensor);
    }
    sent.divide = AddMemoryKernel("divide", size, size);
    // A gradient that was added up in FP32 is cast before it is sent.
    const bool cast_first = bucket.extra_large && plan_.training.gradient_dtype != type_;
    if ((settings_.reduce_scatter && bucket.parts > 1) || cast_first) {
      sent.collect = AddMemoryKernel("flatten", size, size);
      sent.collected = builder_.AddBuffer("flat bucket", size, Category::kCommunication);
      const Bytes own((size.count() + Ranks() - 1) / Ranks());
      sent.copy_own = AddMemoryKernel("copy_own_gradients", own, own);
    }
    if (sent_type != type_ && communicator_ != kNone) {
      const Bytes wide = BytesOf(bucket.elements, sent_type);
      sent.sent = builder_.AddBuffer("bucket as sent", wide, Category::kCommunication);
      sent.cast = AddMemoryKernel("cast_bucket", size, wide);
      sent.cast_back = AddMemoryKernel("cast_bucket", wide, size);
    }
    // Tensors that reach into the rank's part are copied whole.
    const double share =
        static_cast<double>(bucket.elements) / static_cast<double>(step_.model().parameter_count());
    const auto held = static_cast<std::int64_t>(share * static_cast<double>(held_.elements));
    sent.keep = AddMemoryKernel("copy_grads_in_partition", BytesOf(held, type_),
                                BytesOf(held, plan_.training.gradient_dtype));
    if (!offload_.optimizer()) return;
    sent.held = BytesOf(held, type_);
    sent.own = (bucket.elements + Ranks() - 1) / Ranks();
    sent.add = AddMemoryKernel("accumulate_gradient", 2 * sent.held, sent.held);
    sent.widen = AddMemoryKernel("cast_gradients", BytesOf(sent.own, type_), Bytes(4 * sent.own));
    sent.widened = builder_.AddBuffer("FP32 gradients", Bytes(4 * sent.own), Category::kGradient);
    sent.square = AddMemoryKernel("norm", Bytes(10 * sent.own), Bytes(8 * sent.own));
  }

  void MakeBucketBuffers() {
    if (has_bucket_buffers_) return;
    for (const Index buffer : bucket_buffers_) builder_.Allocate(step_.compute(), buffer);
    has_bucket_buffers_ = true;
  }

  // grad_accum: FP32 gradients beside the 16-bit ones, which go.
  void Accumulate(int tensor) {
    const bool first = !has_accumulator_[tensor];
    if (first) builder_.Allocate(step_.compute(), accumulators_[tensor]);
    has_accumulator_[tensor] = true;
    const program::Effect move = Move(At(accumulators_[tensor], 0, plan_.training.gradient_dtype),
                                      gradients_.place(tensor), Elements(tensor));
    builder_.With(first ? move : Added(move));
    builder_.Run(
        step_.compute(), first ? accumulate_[tensor] : accumulate_more_[tensor],
        {builder_.ReadsAll(gradients_.buffer(tensor)), builder_.WritesAll(accumulators_[tensor])});
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
    const program::Elements source =
        apart ? At(accumulators_[tensor], 0, plan_.training.gradient_dtype)
              : gradients_.place(tensor);
    const program::Elements slot = At(bucket_buffers_[buffer_], slot_[tensor], type_);
    builder_.With(Scaled(1.0 / static_cast<double>(Ranks()), Move(slot, source, Elements(tensor))));
    builder_.Run(step_.compute(), copies_[tensor],
                 {builder_.ReadsAll(source.buffer),
                  Writes(slot.buffer, slot.offset, BytesOf(Elements(tensor), type_))});
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
    const program::Elements gathered =
        !bucket.extra_large ? At(bucket_buffers_[buffer_], 0, type_)
        : apart             ? At(accumulators_[alone], 0, plan_.training.gradient_dtype)
                            : gradients_.place(alone);
    const BufferUse whole =
        Writes(gathered.buffer, gathered.offset, BytesOf(bucket.elements, gathered.type));
    double scale = bucket.extra_large ? 1.0 / static_cast<double>(Ranks()) : 1.0;
    builder_.Run(reduction_, sent.divide, {whole});
    program::Elements place = gathered;
    const auto move_to = [&](Index target, DataType type, Index kernel) {
      const program::Elements to = At(target, 0, type);
      builder_.Allocate(reduction_, target);
      builder_.With(Scaled(std::exchange(scale, 1.0), Move(to, place, bucket.elements)));
      builder_.Run(reduction_, kernel,
                   {Reads(place.buffer, place.offset, BytesOf(bucket.elements, place.type)),
                    builder_.WritesAll(target)});
      place = to;
    };
    if (sent.collected != kNone) move_to(sent.collected, type_, sent.collect);
    const program::Elements before_cast = place;
    if (sent.sent != kNone) move_to(sent.sent, plan_.training.reduce_dtype, sent.cast);
    if (communicator_ != kNone) {
      builder_.With(Collected(place, place, bucket.elements));
      builder_.Communicate(
          reduction_,
          builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                  .communicator = communicator_,
                                  .bytes = BytesOf(bucket.elements, plan_.training.reduce_dtype),
                                  .data_type = plan_.training.reduce_dtype,
                                  .average = scale != 1.0}),
          {Writes(place.buffer, place.offset, BytesOf(bucket.elements, place.type))});
    }
    if (sent.sent != kNone) {
      builder_.With(Move(before_cast, place, bucket.elements));
      builder_.Run(
          reduction_, sent.cast_back,
          {builder_.ReadsAll(sent.sent), Writes(before_cast.buffer, before_cast.offset,
                                                BytesOf(bucket.elements, before_cast.type))});
      builder_.Release(sent.sent);
      place = before_cast;
    }
    if (sent.collected != kNone) {
      WithOwnOf(bucket, gathered, place, false);
      builder_.Run(reduction_, sent.copy_own, {builder_.ReadsAll(sent.collected), whole});
      builder_.Release(sent.collected);
    }
    if (offload_.optimizer()) {
      KeepOnHost(sent, whole);
    } else {
      Keep(bucket, sent, gathered, whole);
    }
    if (alone >= 0 && !apart) {
      if (overlap_) builder_.RecordStream(reduction_, gathered.buffer);
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
  void KeepOnHost(const SentBucket& sent, BufferUse whole) {
    whole.write = false;
    const bool several = plan_.training.gradient_accumulation > 1;
    if (several && step_.micro_batch() > 0) {
      if (overlap_) builder_.WaitForStream(reduction_, step_.compute(), bucket_ready_);
      offload_.ToDevice(reduction_, sent.held, {builder_.WritesAll(transit_)});
      BufferUse written = whole;
      written.write = true;
      builder_.Run(reduction_, sent.add, {builder_.ReadsAll(transit_), written});
    }
    if (!step_.last_micro_batch()) {
      offload_.ToHost(reduction_, sent.held, {whole});
      return;
    }
    builder_.Run(reduction_, sent.square, {whole});
    builder_.Allocate(reduction_, sent.widened);
    builder_.Run(reduction_, sent.widen, {whole, builder_.WritesAll(sent.widened)});
    offload_.ToHost(reduction_, Bytes(4 * sent.own), {builder_.ReadsAll(sent.widened)});
    builder_.Release(sent.widened);
  }

  void Keep(const DeepSpeedBucket& bucket, const SentBucket& sent,
            const program::Elements& gathered, BufferUse whole) {
    const bool further = has_kept_ && kept_in_ != step_.micro_batch();
    const Index kept = further ? kept_further_ : kept_;
    if (!has_kept_) {
      // The reduction's stream fills it; compute takes it over, so compute owns it.
      builder_.Allocate(step_.compute(), kept_);
      has_kept_ = true;
      kept_in_ = step_.micro_batch();
      WaitForAllocation();
    } else if (further && !has_further_) {
      builder_.Allocate(step_.compute(), kept_further_);
      has_further_ = true;
      WaitForAllocation();
    }
    whole.write = false;
    WithOwnOf(bucket, At(kept, 0, plan_.training.gradient_dtype), gathered, true);
    builder_.Run(reduction_, sent.keep, {whole, builder_.WritesAll(kept)});
  }

  // Memory that compute has given back may still be in use there.
  void WaitForAllocation() {
    if (overlap_) builder_.WaitForStream(reduction_, step_.compute(), bucket_ready_);
  }

  // Stage 0: chunks of gradients, each closed by the tensor that takes it beyond 5e8 elements
  // (allreduce_no_retain).
  void AddStageZeroBuckets() {
    if (communicator_ == kNone) return;
    constexpr std::int64_t kChunk = 500'000'000;
    DeepSpeedBucket open;
    const auto close = [&] {
      if (open.tensors.empty()) return;
      open.parts = 2;  // always put together anew
      buckets_.push_back(std::exchange(open, {}));
    };
    for (const int tensor : RegistrationOrder()) {
      open.tensors.push_back(tensor);
      open.elements += Elements(tensor);
      if (open.elements > kChunk) close();
    }
    close();
    slot_.assign(step_.model().tensors.size(), 0);
    for (const DeepSpeedBucket& bucket : buckets_) AddChunk(bucket);
    for (const model::Tensor& tensor : step_.model().tensors) {
      const Bytes size = BytesOf(tensor.elements, type_);
      copies_.push_back(AddMemoryKernel("copy_from_bucket", size, size));
    }
  }

  void AddChunk(const DeepSpeedBucket& bucket) {
    const Bytes size = BytesOf(bucket.elements, type_);
    SentBucket& sent = sent_.emplace_back();
    std::int64_t offset = 0;
    for (const int tensor : bucket.tensors) {
      slot_[tensor] = offset;
      offset += Elements(tensor);
    }
    sent.collect = AddMemoryKernel("flatten", size, size);
    sent.collected = builder_.AddBuffer("flat bucket", size, Category::kCommunication);
    const DataType sent_type = plan_.training.reduce_dtype;
    const Bytes wide = BytesOf(bucket.elements, sent_type);
    sent.divide = AddMemoryKernel("divide", wide, wide);
    if (sent_type == type_) return;
    sent.sent = builder_.AddBuffer("bucket as sent", wide, Category::kCommunication);
    sent.cast = AddMemoryKernel("cast_bucket", size, wide);
    sent.cast_back = AddMemoryKernel("cast_bucket", wide, size);
  }

  void ReduceAfterBackward() {
    const StreamId compute = step_.compute();
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const DeepSpeedBucket& bucket = buckets_[b];
      const SentBucket& sent = sent_[b];
      const program::Elements flat = At(sent.collected, 0, type_);
      builder_.Allocate(compute, sent.collected);
      std::vector<BufferUse> uses{builder_.WritesAll(sent.collected)};
      for (const int tensor : bucket.tensors) {
        uses.push_back(builder_.ReadsAll(gradients_.buffer(tensor)));
        builder_.With(
            Scaled(1.0 / static_cast<double>(Ranks()),
                   Move(Further(flat, slot_[tensor]), gradients_.place(tensor), Elements(tensor))));
      }
      builder_.Run(compute, sent.collect, uses);
      program::Elements place = flat;
      if (sent.sent != kNone) {
        builder_.Allocate(compute, sent.sent);
        place = At(sent.sent, 0, plan_.training.reduce_dtype);
        builder_.With(Move(place, flat, bucket.elements));
        builder_.Run(compute, sent.cast,
                     {builder_.ReadsAll(sent.collected), builder_.WritesAll(sent.sent)});
      }
      builder_.Run(compute, sent.divide, {builder_.WritesAll(place.buffer)});
      builder_.With(Collected(place, place, bucket.elements));
      builder_.Communicate(compute,
                           builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                                   .communicator = communicator_,
                                                   .bytes = builder_.SizeOf(place.buffer),
                                                   .data_type = plan_.training.reduce_dtype}),
                           {builder_.WritesAll(place.buffer)});
      if (sent.sent != kNone) {
        builder_.With(Move(flat, place, bucket.elements));
        builder_.Run(compute, sent.cast_back,
                     {builder_.ReadsAll(sent.sent), builder_.WritesAll(sent.collected)});
        builder_.Release(sent.sent);
      }
      for (const int tensor : bucket.tensors) {
        builder_.With(
            Move(gradients_.place(tensor), Further(flat, slot_[tensor]), Elements(tensor)));
        builder_.Run(
            compute, copies_[tensor],
            {Reads(sent.collected, BytesOf(slot_[tensor], type_), BytesOf(Elements(tensor), type_)),
             builder_.WritesAll(gradients_.buffer(tensor))});
      }
      builder_.Release(sent.collected);
    }
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
  Index parameters_ = kNone;
  std::optional<DeepSpeedUpdate> update_;
  UpdateGroup group_;
  Index gather_ = kNone;
  Index bucket_ready_ = kNone, bucket_reduced_ = kNone;  // events

  HostOffload offload_;
  Index transit_ = kNone;  // buffer: where gradients come back from the host

  Operations operations_;
  LocalGradients gradients_;
  std::vector<Index> accumulators_;  // buffers by tensor; empty: 16-bit gradients add up themselves
  std::vector<Index> accumulate_, accumulate_more_;  // kernels by tensor
  std::vector<bool> has_accumulator_;
  std::vector<int> reduce_order_;
  std::vector<DeepSpeedBucket> buckets_;
  std::vector<SentBucket> sent_;
  std::vector<std::int64_t> slot_;  // by tensor: elements in its bucket
  std::vector<Index> copies_;       // kernels by tensor
  std::vector<Index> bucket_buffers_;
  bool has_bucket_buffers_ = false;
  std::size_t next_bucket_ = 0;  // being filled
  std::size_t filled_ = 0;       // its tensors
  std::size_t buffer_ = 0;       // which of the two
  Index kept_ = kNone, kept_further_ = kNone, add_kept_ = kNone;
  bool has_kept_ = false, has_further_ = false;
  std::int64_t kept_in_ = 0;  // the micro-batch that `kept_` was made in
};

}  // namespace

program::Program LowerDeepSpeed(const scenario::Scenario& scenario, const LowerOptions& options) {
  TrainingStep step(scenario, options);
  DeepSpeed technique(step);
  return step.Write(technique);
}

}  // namespace stepcast::lowering
