#include "src/lowering/internevo.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/lowering/effects.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/framework_update.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/memory_kernel.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/training_step.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

// What one rank of the shard group owns: parameters that lie together on every rank.
struct Owner {
  std::vector<int> tensors;
  std::int64_t elements = 0;
  Index parameters = kNone;  // buffer
  Index broadcast = kNone;   // collective
};

struct Place {
  int owner = 0;
  std::int64_t offset = 0;  // elements
};

// A bucket on its way.
struct SentBucket {
  std::vector<int> tensors;
  Index buffer = kNone, reduced = kNone;
};

class InternEvo final : public Technique {
 public:
  explicit InternEvo(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        plan_(step.plan()),
        groups_(ProcessGroupsOf(plan_, step.rank())),
        type_(plan_.training.parameter_dtype),
        gradients_(step, type_) {
    STEPCAST_CHECK(!builder_.describes_data_flow(), "values are not described");
    STEPCAST_CHECK(plan_.data_parallel.bucket_size.has_value(), "it has a default");
    limit_ = plan_.data_parallel.bucket_size->count() / SizeOf(type_);
  }

  void WritePrologue() override {
    reduction_ = builder_.AddStream("nccl data");
    broadcasts_ = builder_.AddStream("nccl zero1");
    communicator_ = builder_.AddCommunicator("data", groups_.data);
    shard_communicator_ = builder_.AddCommunicator(groups_.shard_name(), groups_.shard);
    AllocateFrameworkWorkspaces(step_, {step_.compute()});
    AssignOwners();
    for (std::size_t rank = 0; rank < owners_.size(); ++rank) {
      AddOwner("rank " + std::to_string(rank), owners_[rank]);
    }
    const Bytes states(OwnElements() * plan::OptimizerBytesPerParameter(plan_.training));
    if (states > Bytes(0)) {
      optimizer_ = builder_.AddBuffer("optimizer", states, Category::kOptimizer);
      builder_.Allocate(step_.compute(), optimizer_);
    }
    norm_ = builder_.AddBuffer("norm", Bytes(4), Category::kWorkspace);
    builder_.Allocate(step_.compute(), norm_);
    ready_ = builder_.AddEvent("bucket ready");
    agreed_ = builder_.AddEvent("norm agreed");
    updated_ = builder_.AddEvent("updated");
    gathered_ = builder_.AddEvent("parameters there");
  }

  void BeforeForward(int) override {}
  void AfterForward(int) override {}
  void BeforeBackward(int) override {}
  void AfterBackward(int) override {}

  void AppendParameterReads(int layer, std::vector<BufferUse>& uses) override {
    for (const int tensor : step_.model().layers[layer].tensors) {
      const program::Elements place = ParameterPlace(tensor);
      uses.push_back(Reads(place.buffer, place.offset, Size(tensor)));
    }
  }

  void WriteGradient(int /*layer*/, int tensor) override {
    gradients_.Write(tensor, ParameterPlace(tensor));
  }

  void GradientReady(int tensor) override {
    gradients_.Complete(tensor);
    if (Reduces() && plan_.data_parallel.overlap) Fill(tensor);
  }

  void EndBackward() override {
    if (!Reduces()) return;
    if (!plan_.data_parallel.overlap) {
      for (std::size_t t = 0; t < step_.model().tensors.size(); ++t) Fill(static_cast<int>(t));
    }
    Send();
    CopyBack();
  }

  void WriteUpdate() override {
    TakeNorm();
    Update();
    builder_.Record(step_.compute(), updated_);
    builder_.HostWait(updated_);
    if (shard_communicator_ == kNone) return;
    builder_.Wait(broadcasts_, updated_);
    for (const Owner& owner : owners_) {
      if (owner.broadcast == kNone) continue;
      builder_.Communicate(broadcasts_, owner.broadcast, {builder_.WritesAll(owner.parameters)});
    }
    builder_.Record(broadcasts_, gathered_);
    builder_.Wait(step_.compute(), gathered_);
  }

 private:
  bool Reduces() const { return step_.last_micro_batch() && communicator_ != kNone; }
  std::int64_t Elements(int tensor) const { return step_.model().tensors[tensor].elements; }
  Bytes Size(int tensor) const { return BytesOf(Elements(tensor), type_); }
  const Owner& Own() const { return owners_[groups_.shard_index()]; }
  std::int64_t OwnElements() const { return Own().elements; }

  program::Elements ParameterPlace(int tensor) const {
    const Place& place = places_[tensor];
    return At(owners_[place.owner].parameters, place.offset, type_);
  }

  Index AddMemoryKernel(const char* name, Bytes read, Bytes written) {
    return builder_.AddKernel(MemoryKernel(name, type_, read, written));
  }

  void AssignOwners() {
    const std::size_t count = step_.model().tensors.size();
    owners_.resize(static_cast<std::size_t>(groups_.shard.size()));
    places_.resize(count);
    std::vector<int> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [this](int a, int b) { return Elements(a) > Elements(b); });
    for (const int tensor : order) {
      const auto owner =
          std::min_element(owners_.begin(), owners_.end(),
                           [](const Owner& a, const Owner& b) { return a.elements < b.elements; });
      places_[tensor] = {static_cast<int>(owner - owners_.begin()), owner->elements};
      owner->tensors.push_back(tensor);
      owner->elements += Elements(tensor);
    }
  }

  void AddOwner(const std::string& name, Owner& owner) {
    if (owner.tensors.empty()) return;
    const Bytes size = BytesOf(owner.elements, type_);
    owner.parameters = builder_.AddBuffer(name + "/parameters", size, Category::kParameter);
    builder_.Allocate(step_.compute(), owner.parameters);
    if (shard_communicator_ == kNone) return;
    owner.broadcast = builder_.AddCollective({.kind = CollectiveKind::kBroadcast,
                                              .communicator = shard_communicator_,
                                              .bytes = size,
                                              .data_type = type_});
  }

  void Fill(int tensor) {
    if (filled_ + Elements(tensor) > limit_) Send();
    filling_.push_back(tensor);
    filled_ += Elements(tensor);
  }

  // Sends the bucket that is being filled, then takes back the one before.
  void Send() {
    std::optional<SentBucket> sent;
    if (!filling_.empty()) {
      const std::string name = "bucket " + std::to_string(buckets_++);
      const Bytes size = BytesOf(filled_, type_);
      sent = {.tensors = std::exchange(filling_, {}),
              .buffer = builder_.AddBuffer(name, size, Category::kCommunication),
              .reduced = builder_.AddEvent(name + " reduced")};
      filled_ = 0;
      builder_.Allocate(step_.compute(), sent->buffer);
      std::vector<BufferUse> uses{builder_.WritesAll(sent->buffer)};
      for (const int tensor : sent->tensors) {
        uses.push_back(builder_.ReadsAll(gradients_.buffer(tensor)));
      }
      builder_.Run(step_.compute(), AddMemoryKernel("flatten", size, size), uses);
      builder_.WaitForStream(reduction_, step_.compute(), ready_);
      builder_.Communicate(reduction_,
                           builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                                   .communicator = communicator_,
                                                   .bytes = size,
                                                   .data_type = type_,
                                                   .average = true}),
                           {builder_.WritesAll(sent->buffer)});
      builder_.Record(reduction_, sent->reduced);
    }
    CopyBack();
    under_way_ = std::move(sent);
  }

  // Waits for the bucket under way, and copies it back into its gradients.
  void CopyBack() {
    if (!under_way_) return;
    builder_.Wait(step_.compute(), under_way_->reduced);
    Bytes offset;
    for (const int tensor : under_way_->tensors) {
      const Bytes size = Size(tensor);
      builder_.Run(
          step_.compute(), AddMemoryKernel("copy_from_bucket", size, size),
          {Reads(under_way_->buffer, offset, size), builder_.WritesAll(gradients_.buffer(tensor))});
      offset += size;
    }
    builder_.Release(under_way_->buffer);
    under_way_.reset();
  }

  // A rank that owns nothing takes part with a few zeros.
  void TakeNorm() {
    const Bytes read = BytesOf(OwnElements(), type_);
    std::vector<BufferUse> uses{builder_.WritesAll(norm_)};
    for (const int tensor : Own().tensors) {
      uses.push_back(builder_.ReadsAll(gradients_.buffer(tensor)));
    }
    builder_.Run(step_.compute(), AddMemoryKernel("norm", read, Bytes(4)), uses);
    if (shard_communicator_ != kNone) {
      builder_.WaitForStream(broadcasts_, step_.compute(), ready_);
      builder_.Communicate(broadcasts_,
                           builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                                   .communicator = shard_communicator_,
                                                   .bytes = Bytes(4),
                                                   .data_type = DataType::kFp32}),
                           {builder_.WritesAll(norm_)});
      builder_.Record(broadcasts_, agreed_);
      builder_.Wait(step_.compute(), agreed_);
    } else {
      builder_.Record(step_.compute(), agreed_);
    }
    builder_.HostWait(agreed_);
  }

  // Gradients of other ranks' tensors go; the own ones are put together and clipped.
  void Update() {
    std::vector<bool> own(places_.size(), false);
    for (const int tensor : Own().tensors) own[tensor] = true;
    for (std::size_t t = 0; t < own.size(); ++t) {
      if (!own[t]) gradients_.Release(static_cast<int>(t));
    }
    if (Own().tensors.empty()) return;
    const Bytes size = BytesOf(OwnElements(), type_);
    const Index flat = builder_.AddBuffer("own gradients", size, Category::kGradient);
    builder_.Allocate(step_.compute(), flat);
    std::vector<BufferUse> uses{builder_.WritesAll(flat)};
    for (const int tensor : Own().tensors) {
      uses.push_back(builder_.ReadsAll(gradients_.buffer(tensor)));
    }
    builder_.Run(step_.compute(), AddMemoryKernel("flatten", size, size), uses);
    for (const int tensor : Own().tensors) gradients_.Release(tensor);
    const Bytes wide(4 * OwnElements());  // clipped in FP32
    builder_.Run(step_.compute(), AddMemoryKernel("clip", wide, wide), {builder_.WritesAll(flat)});
    const BufferUse written[] = {builder_.ReadsAll(flat), builder_.WritesAll(optimizer_),
                                 builder_.WritesAll(Own().parameters)};
    const UpdatedTensor all{.elements = OwnElements()};
    WriteFrameworkUpdate(step_, plan_.training, {OwnElements(), {all}}, written, {});
    builder_.Release(flat);
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Plan& plan_;
  const ProcessGroups groups_;
  const DataType type_;
  LocalGradients gradients_;
  std::int64_t limit_ = 0;  // elements in a bucket
  StreamId reduction_ = 0, broadcasts_ = 0;
  Index communicator_ = kNone, shard_communicator_ = kNone;
  std::vector<Owner> owners_;               // by index in the shard group
  std::vector<Place> places_;               // by tensor
  Index optimizer_ = kNone, norm_ = kNone;  // buffers
  Index ready_ = kNone, agreed_ = kNone, updated_ = kNone, gathered_ = kNone;  // events
  std::vector<int> filling_;
  std::int64_t filled_ = 0;  // elements
  int buckets_ = 0;
  std::optional<SentBucket> under_way_;
};

}  // namespace

program::Program LowerInternEvo(const scenario::Scenario& scenario, const LowerOptions& options) {
  TrainingStep step(scenario, options);
  InternEvo technique(step);
  return step.Write(technique);
}

}  // namespace stepcast::lowering
