#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "src/lowering/deepspeed_parts.h"
#include "src/lowering/framework_steps.h"
#include "src/lowering/gradients.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"

namespace stepcast::lowering {
namespace {

using model::ParameterGroup;
using program::BufferUse;
using program::Category;
using program::kNone;

// The data of a bucket as it is sent, for one of DeepSpeedBuckets.
struct SentBucket {
  // Buffers of the tensors that the same ranks reduce.
  struct Share {
    Range collected;  // the share's parts put together by owners
    Range sent;       // in the type that is sent, where that is another
  };
  OfParameterGroups<Share> shares{};
  // Elements of the tensors that reach into the rank's part (`held`), and of the part itself
  // (`own`).
  std::int64_t held = 0, own = 0;
  Range widened;  // offloaded: what it owns, in FP32
};

class DeepSpeed final : public FrameworkStrategy {
 public:
  explicit DeepSpeed(TrainingStep& step)
      : FrameworkStrategy(step),
        settings_(plan_.data_parallel.deepspeed),
        stage_(plan_.data_parallel.zero_stage),
        overlap_(stage_ >= 1 && plan_.data_parallel.overlap),
        type_(plan_.training.parameter_dtype),
        offload_(step),
        gradients_(step, operations_, type_),
        chunks_(step, operations_),
        tied_(step),
        partitions_(step, operations_) {}

  void WritePrologue() override {
    reduction_ = overlap_ ? builder_.AddStream("reduction") : step_.compute();
    partitions_.AddCommunicators();
    tied_.WritePrologue();
    AllocateFrameworkWorkspaces(step_);
    partitions_.AddParameters();
    update_.emplace(step_, partitions_.communicator(ParameterGroup::kDense),
                    partitions_.communicator(ParameterGroup::kExperts));
    offload_.WritePrologue();
    for (std::size_t g = 0; !offload_.optimizer() && g < partitions_.size(); ++g) {
      const FlatLayout& flat = partitions_.flat(g);
      updates_.push_back(update_->AddGroup(DeepSpeedPartitions::PrefixOf(g), flat.shard,
                                           flat.shard - flat.exact / flat.ranks));
    }
    for (const int tensor : AllTensors()) {
      AddParameterState(step_, Parameter(tensor).place, step_.first_element(tensor),
                        Elements(tensor));
    }
    for (std::size_t g = 0; g < updates_.size(); ++g) {
      for (const Piece& own : partitions_.Own(g)) {
        update_->AddState(updates_[g], own.offset, step_.first_element(own.tensor) + own.first,
                          own.elements);
      }
    }
    bucket_ready_ = builder_.AddEvent("bucket ready");
    bucket_reduced_ = builder_.AddEvent("bucket reduced");
    AddBuckets();
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
      // Adds to the gradients left by earlier micro-batches.
      operations_.Reads(kept_further_);
      operations_.Updates(kept_);
      std::vector<program::Effect> moves;
      for (std::size_t g = 0; g < partitions_.size(); ++g) {
        for (const Piece& own : partitions_.Own(g)) {
          const std::int64_t offset = partitions_.KeptOffset(own);
          AppendJoined(moves,
                       Added(Move(kept_.At(offset), kept_further_.At(offset), own.elements)));
        }
      }
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
      partitions_.Gather();
      return;
    }
    std::vector<BufferUse> sources;
    if (stage_ == 0) {
      for (const int tensor : AllTensors()) sources.push_back(Reads(gradients_.range(tensor)));
    } else {
      sources.push_back(Reads(kept_));
    }
    update_->CheckOverflow(compute, partitions_.held().tensors, partitions_.held().elements,
                           sources);
    for (std::size_t g = 0; g < partitions_.size(); ++g) TakeNorm(g, sources);
    for (std::size_t g = 0; g < partitions_.size(); ++g) Update(g);
    partitions_.Gather();
  }

 private:
  // Gradients of the step: whole tensors at stage 0, else of the rank's part.
  program::Elements GradientAt(const Piece& own) const {
    return stage_ == 0 ? gradients_.range(own.tensor).At(own.first)
                       : kept_.At(partitions_.KeptOffset(own));
  }

  void TakeNorm(std::size_t g, const std::vector<BufferUse>& sources) {
    std::vector<program::Effect> squares;
    const std::int64_t copies =
        stage_ == 0 ? partitions_.ranks(partitions_.groups().all()[g].ranks_of) : 1;
    for (const Piece& own : partitions_.Own(g)) {
      if (!tied_.Counts(own.tensor)) continue;
      squares.push_back(update_->SquaresOf(GradientAt(own), own.elements, copies));
    }
    const Holding& held = partitions_.held(g);
    update_->TakeNorm(held.tensors, held.elements, sources, squares, g == 0, g > 0);
  }

  // Frees the group's gradients once they are flattened into one vector. The gradients kept for all
  // groups are freed after the last group.
  void Update(std::size_t g) {
    const UpdateGroup& group = updates_[g];
    const Pieces& tensors = partitions_.flat(g).tensors;
    std::vector<BufferUse> sources;
    if (stage_ == 0) {
      for (const Piece& whole : tensors) sources.push_back(Reads(gradients_.range(whole.tensor)));
    } else {
      sources.push_back(Reads(kept_));
    }
    std::vector<program::Effect> moves, updates;
    for (const Piece& own : partitions_.Own(g)) {
      const DataType kept = plan_.training.gradient_dtype;
      AppendJoined(moves, Move(At(group.flat, own.offset, kept), GradientAt(own), own.elements));
      AppendJoined(updates, update_->UpdateOf(group, Parameter(own.tensor).At(own.first),
                                              own.offset, own.elements));
    }
    update_->Flatten(group, sources, moves);
    if (stage_ == 0) {
      for (const Piece& whole : tensors) gradients_.Release(whole.tensor);
    } else if (g + 1 == partitions_.size()) {
      operations_.Release(kept_);
      has_kept_ = false;
    }
    update_->Apply(group, {partitions_.OwnParameters(g)}, updates);
  }

  // The gradients are on the host and their norm is known. The updated part returns in the
  // parameters' type.
  void UpdateOnHost() {
    const StreamId compute = step_.compute();
    update_->AgreeOnScalar();
    builder_.Record(compute, bucket_reduced_);
    builder_.HostWait(bucket_reduced_);
    const std::int64_t part = partitions_.flat(0).shard;
    offload_.Update(part);
    builder_.ToDevice(compute, BytesOf(part, type_), {partitions_.OwnParameters(0)});
  }

  // Number of data-parallel ranks, by which all gradients are divided, those of experts too.
  std::int64_t Ranks() const { return partitions_.ranks(ParameterGroup::kDense); }
  Range Parameter(int tensor) const override { return partitions_.Parameter(tensor); }
  // Whether gradients are reduced as they become ready; if not, they are reduced after backward.
  bool ReducesInHooks() const { return stage_ == 2 || overlap_; }
  // Whether this micro-batch reduces gradients.
  bool Reduces() const { return stage_ == 2 || step_.last_micro_batch(); }

  Range Add(const char* name, std::int64_t elements, DataType type, Category category) {
    return operations_.AddRange({.first = builder_.AddText(name)}, elements, type, category);
  }

  void AddChunks() {
    if (partitions_.communicator(ParameterGroup::kDense) == kNone) return;
    for (const ParameterGroup of : model::kParameterGroups) {
      std::vector<int> tensors;
      for (const FlatGroup& group : partitions_.groups().all()) {
        if (group.ranks_of != of) continue;
        for (const Piece& whole : group.flat.tensors) tensors.push_back(whole.tensor);
      }
      chunks_.AddChunks(partitions_.communicator(of), Ranks(), tensors);
    }
  }

  void AddBuckets() {
    if (stage_ == 0) {
      AddChunks();
      return;
    }
    const DataType kept = plan_.training.gradient_dtype;
    const auto& tensors = step_.model().tensors;
    reduce_order_ = ReducesInHooks()
                        ? GradientReadyOrder(step_.model(), step_.works(), step_.work_of_layers())
                        : AllTensors();
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
    kept_ = Add("gradients in partition", partitions_.held().elements, kept, Category::kGradient);
    if (stage_ == 2 && plan_.training.gradient_accumulation > 1) {
      kept_further_ = Add("gradients in partition (next)", partitions_.held().elements, kept,
                          Category::kGradient);
    }
    buckets_ =
        BucketsOf(step_.model(), reduce_order_, partitions_.groups(), settings_.reduce_bucket_size);
    slot_.assign(tensors.size(), 0);
    slot_in_share_.assign(tensors.size(), 0);
    for (const DeepSpeedBucket& bucket : buckets_) AddSentBucket(bucket);
  }

  void AddSentBucket(const DeepSpeedBucket& bucket) {
    const DataType sent_type = plan_.training.reduce_dtype;
    SentBucket& sent = sent_.emplace_back();
    std::int64_t offset = 0;
    OfParameterGroups<std::int64_t> in_share{};
    for (const int tensor : bucket.tensors) {
      slot_[tensor] = offset;
      offset += Elements(tensor);
      std::int64_t& own = in_share[IndexOf(partitions_.groups().of(tensor).ranks_of)];
      slot_in_share_[tensor] = own;
      own += Elements(tensor);
    }
    // A gradient that was added up in FP32 is cast before it is sent.
    const bool cast_first = bucket.extra_large && plan_.training.gradient_dtype != type_;
    for (const ParameterGroup group : model::kParameterGroups) {
      const DeepSpeedBucket::Share& share = bucket.shares[IndexOf(group)];
      if (share.elements == 0) continue;
      SentBucket::Share& own = sent.shares[IndexOf(group)];
      if ((settings_.reduce_scatter && share.parts > 1) || cast_first) {
        own.collected = Add("flat bucket", share.elements, type_, Category::kCommunication);
      }
      if (sent_type != type_ && partitions_.communicator(group) != kNone) {
        own.sent = Add("bucket as sent", share.elements, sent_type, Category::kCommunication);
      }
      // A tensor that reaches into the rank's part is copied whole.
      const double part =
          static_cast<double>(share.elements) / static_cast<double>(partitions_.ElementsOf(group));
      sent.held += static_cast<std::int64_t>(part * static_cast<double>(partitions_.HeldOf(group)));
      sent.own += OwnOf(share.elements, group);
    }
    if (!offload_.optimizer()) return;
    sent.widened = Add("FP32 gradients", sent.own, DataType::kFp32, Category::kGradient);
  }

  static std::size_t IndexOf(ParameterGroup group) { return static_cast<std::size_t>(group); }
  // One rank's part of `elements` that the ranks of the group share out, rounded up.
  std::int64_t OwnOf(std::int64_t elements, ParameterGroup group) const {
    return (elements + partitions_.ranks(group) - 1) / partitions_.ranks(group);
  }

  void MakeBucketBuffers() {
    if (has_bucket_buffers_) return;
    for (const Range& buffer : bucket_buffers_) operations_.Allocate(step_.compute(), buffer);
    has_bucket_buffers_ = true;
  }

  // Adds 16-bit gradients to those of grad_accum, in FP32, and frees the former.
  void Accumulate(int tensor) {
    const Range& sum = accumulators_[tensor];
    const Range& gradient = gradients_.range(tensor);
    const bool first = !has_accumulator_[tensor];
    has_accumulator_[tensor] = true;
    if (first) {
      operations_.Allocate(step_.compute(), sum);
      operations_.Copy(step_.compute(), "to_accumulated_gradient", sum, gradient);
    } else {
      // Cast to FP32, then added.
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

  // Puts a complete gradient into its bucket. Sends the bucket before once that is full.
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

  // Reduces a bucket and stores the part that this rank owns.
  void Send(std::size_t index) {
    const DeepSpeedBucket& bucket = buckets_[index];
    const SentBucket& sent = sent_[index];
    if (overlap_) {
      // Compute waits until the bucket before is reduced, because its buffer is filled next.
      builder_.WaitForStream(reduction_, step_.compute(), bucket_ready_);
      builder_.WaitForStream(step_.compute(), reduction_, bucket_reduced_);
    }
    // A gradient larger than a bucket stays where it was made and has not been divided yet.
    const int alone = bucket.extra_large ? bucket.tensors.front() : -1;
    const bool apart = bucket.extra_large && !accumulators_.empty();
    const Range whole = !bucket.extra_large ? bucket_buffers_[buffer_].Part(0, bucket.elements)
                        : apart             ? accumulators_[alone]
                                            : gradients_.range(alone);
    const Bytes size = BytesOf(bucket.elements, type_);
    operations_.Writes(whole);
    operations_.Traffic(size, size);
    // Other gradients were divided when they were copied into the bucket.
    if (bucket.extra_large) operations_.Moves(whole, whole, 1.0 / static_cast<double>(Ranks()));
    operations_.Run(reduction_, "divide");
    for (const ParameterGroup group : model::kParameterGroups) {
      if (bucket.shares[IndexOf(group)].elements > 0) Reduce(bucket, sent, whole, group);
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

  // Reduces a bucket at `whole`, each share among its own ranks.
  void Reduce(const DeepSpeedBucket& bucket, const SentBucket& sent, const Range& whole,
              ParameterGroup group) {
    const DeepSpeedBucket::Share& share = bucket.shares[IndexOf(group)];
    const Range &collected = sent.shares[IndexOf(group)].collected,
                &as_sent = sent.shares[IndexOf(group)].sent;
    const Bytes size = BytesOf(share.elements, type_);
    Range place = whole.Part(share.first, share.elements);
    if (collected) {
      operations_.Allocate(reduction_, collected);
      operations_.Reads(whole);
      operations_.Writes(collected);
      operations_.Traffic(size, size);
      Collect(bucket, group, collected, whole);
      operations_.Run(reduction_, "flatten");
      place = collected;
    }
    const Range before_cast = place;
    if (as_sent) {
      operations_.Allocate(reduction_, as_sent);
      operations_.Copy(reduction_, "cast_bucket", as_sent, place);
      place = as_sent;
    }
    const Index communicator = partitions_.communicator(group);
    if (communicator != kNone) operations_.AllReduce(reduction_, communicator, place);
    if (as_sent) {
      operations_.Copy(reduction_, "cast_bucket", before_cast, as_sent);
      operations_.Release(as_sent);
    }
    if (!collected) return;
    const Bytes own(OwnOf(size.count(), group));
    operations_.Reads(collected);
    operations_.Writes(whole);
    operations_.Traffic(own, own);
    WithOwnOf(TensorsOf(bucket, group), [&](const Piece& own) {
      return std::pair(whole.At(slot_[own.tensor] + own.first),
                       collected.At(slot_in_share_[own.tensor] + own.first));
    });
    operations_.Run(reduction_, "copy_own_gradients");
    operations_.Release(collected);
  }

  std::vector<int> TensorsOf(const DeepSpeedBucket& bucket, ParameterGroup group) const {
    std::vector<int> tensors;
    for (const int tensor : bucket.tensors) {
      if (partitions_.groups().of(tensor).ranks_of == group) tensors.push_back(tensor);
    }
    return tensors;
  }

  void Collect(const DeepSpeedBucket& bucket, ParameterGroup group, const Range& collected,
               const Range& whole) {
    if (!builder_.describes_data_flow()) return;
    std::vector<program::Effect> moves;
    for (const int tensor : TensorsOf(bucket, group)) {
      AppendJoined(moves, Move(collected.At(slot_in_share_[tensor]), whole.At(slot_[tensor]),
                               Elements(tensor)));
    }
    builder_.With(moves);
  }

  // Moves what this rank owns of tensors: places(piece) are target and source.
  template <typename Places>
  void WithOwnOf(const std::vector<int>& tensors, const Places& places) {
    if (!builder_.describes_data_flow()) return;
    std::vector<program::Effect> moves;
    for (const int tensor : tensors) {
      const Piece* const own = partitions_.OwnOf(tensor);
      if (own == nullptr) continue;
      const auto [target, source] = places(*own);
      AppendJoined(moves, Move(target, source, own->elements));
    }
    builder_.With(moves);
  }

  // Adds up gradients on the device; sums of earlier micro-batches come back for it. After the last
  // micro-batch the rank's own part goes to the host in FP32, and its norm is taken.
  void KeepOnHost(const SentBucket& sent, const Range& whole) {
    const Bytes held = BytesOf(sent.held, type_);
    if (step_.micro_batch() > 0) {
      if (overlap_) builder_.WaitForStream(reduction_, step_.compute(), bucket_ready_);
      builder_.ToDevice(reduction_, held, {Writes(transit_)});
      operations_.Reads(transit_);
      operations_.Writes(whole);
      operations_.Traffic(2 * held, held);
      operations_.Run(reduction_, "accumulate_gradient");
    }
    if (!step_.last_micro_batch()) {
      builder_.ToHost(reduction_, held, {Reads(whole)});
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
    builder_.ToHost(reduction_, sent.widened.size(), {Reads(sent.widened)});
    operations_.Release(sent.widened);
  }

  void Keep(const DeepSpeedBucket& bucket, const SentBucket& sent, const Range& whole) {
    const bool further = has_kept_ && kept_in_ != step_.micro_batch();
    const Range& kept = further ? kept_further_ : kept_;
    if (!has_kept_) {
      // The reduction's stream fills the buffer and compute takes it over, so the compute stream
      // owns it.
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
    WithOwnOf(bucket.tensors, [&](const Piece& own) {
      return std::pair(kept.At(partitions_.KeptOffset(own)),
                       whole.At(slot_[own.tensor] + own.first));
    });
    operations_.Run(reduction_, "copy_grads_in_partition");
  }

  // Waits for compute: memory that it has freed may still be in use there.
  void WaitForAllocation() {
    if (overlap_) builder_.WaitForStream(reduction_, step_.compute(), bucket_ready_);
  }

  const plan::DeepSpeed& settings_;
  const int stage_;
  const bool overlap_;
  const DataType type_;  // of parameters and of the gradients that backward makes

  StreamId reduction_ = 0;
  std::optional<DeepSpeedUpdate> update_;
  std::vector<UpdateGroup> updates_;                     // by group of partitions_
  Index bucket_ready_ = kNone, bucket_reduced_ = kNone;  // events

  HostOffload offload_;
  Range transit_;  // where gradients come back from the host

  LocalGradients gradients_;
  ChunkedReduction chunks_;  // stage 0
  TiedGradients tied_;
  DeepSpeedPartitions partitions_;
  std::vector<Range> accumulators_;  // by tensor; empty: 16-bit gradients add up themselves
  std::vector<bool> has_accumulator_;
  std::vector<int> reduce_order_;
  std::vector<DeepSpeedBucket> buckets_;
  std::vector<SentBucket> sent_;
  // [tensor] elements before it in its bucket, and in its bucket's share.
  std::vector<std::int64_t> slot_, slot_in_share_;
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
  return LowerWith<DeepSpeed>(scenario, options);
}

}  // namespace stepcast::lowering
