#include "src/lowering/internevo.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/framework_update.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/operations.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/training_step.h"
#include "src/parallel/axis.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

// What one rank of the shard group owns: parameters that lie together on every rank.
struct Owner {
  std::vector<int> tensors;
  std::int64_t elements = 0;
  Range parameters;
};

struct Place {
  int owner = 0;
  std::int64_t offset = 0;  // elements
};

// A bucket on its way.
struct SentBucket {
  std::vector<int> tensors;
  Range gradients;
  Index reduced = kNone;  // event
};

class InternEvo final : public ShardingStrategy {
 public:
  explicit InternEvo(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        plan_(step.plan()),
        groups_(ProcessGroupsOf(plan_, step.rank())),
        type_(plan_.training.parameter_dtype),
        operations_(builder_),
        gradients_(step, operations_, type_) {
    STEPCAST_CHECK(!builder_.describes_data_flow(), "values are not described");
    STEPCAST_CHECK(plan_.data_parallel.bucket_size.has_value(), "it has a default");
    limit_ = plan_.data_parallel.bucket_size->count() / SizeOf(type_);
  }

  void WritePrologue() override {
    reduction_ = builder_.AddStream("nccl data");
    broadcasts_ = builder_.AddStream("nccl zero1");
    communicator_ = builder_.AddCommunicator("data", groups_.data);
    shard_communicator_ = builder_.AddCommunicator(groups_.shard_name(), groups_.shard);
    AllocateFrameworkWorkspaces(step_);
    AssignOwners();
    for (std::size_t rank = 0; rank < owners_.size(); ++rank) {
      if (owners_[rank].tensors.empty()) continue;
      const Index name = builder_.AddNumbered("rank ", rank);
      owners_[rank].parameters = AddState(builder_.Named(name, "/parameters"),
                                          owners_[rank].elements, type_, Category::kParameter);
    }
    const plan::OptimizerArrays arrays = plan::OptimizerArraysOf(plan_.training);
    if (OwnElements() > 0) {
      optimizer_ = AddState({.first = builder_.AddText("optimizer")}, OwnElements() * arrays.count,
                            arrays.type, Category::kOptimizer);
    }
    norm_ = AddState({.first = builder_.AddText("norm")}, 1, DataType::kFp32, Category::kWorkspace);
    model_communicator_ = builder_.AddCommunicator(
        "model", plan::GridOf(plan_).Layout(parallel::Axis::kPipeline | parallel::Axis::kTensor));
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
      uses.push_back(Reads(Parameter(tensor)));
    }
  }

  void WriteGradient(int /*layer*/, int tensor) override {
    gradients_.Write(tensor, Parameter(tensor).place);
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
      if (!owner.parameters) continue;
      operations_.Broadcast(broadcasts_, shard_communicator_, owner.parameters);
    }
    builder_.Record(broadcasts_, gathered_);
    builder_.Wait(step_.compute(), gathered_);
  }

 private:
  bool Reduces() const { return step_.last_micro_batch() && communicator_ != kNone; }
  std::int64_t Elements(int tensor) const { return step_.model().tensors[tensor].elements; }
  const Owner& Own() const { return owners_[groups_.shard_index()]; }
  std::int64_t OwnElements() const { return Own().elements; }

  Range Parameter(int tensor) const {
    const Place& place = places_[tensor];
    return owners_[place.owner].parameters.Part(place.offset, Elements(tensor));
  }

  Range AddState(const program::NameParts& name, std::int64_t elements, DataType type,
                 Category category) {
    const Range state = operations_.AddRange(name, elements, type, category);
    operations_.Allocate(step_.compute(), state);
    return state;
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

  void Fill(int tensor) {
    if (filled_ + Elements(tensor) > limit_) Send();
    filling_.push_back(tensor);
    filled_ += Elements(tensor);
  }

  // Puts gradients behind one another.
  void Flatten(std::span<const int> tensors, const Range& target) {
    for (const int tensor : tensors) operations_.Reads(gradients_.range(tensor));
    operations_.Writes(target);
    operations_.Run(step_.compute(), "flatten");
  }

  // Sends the bucket that is being filled, then takes back the one before.
  void Send() {
    std::optional<SentBucket> sent;
    if (!filling_.empty()) {
      const Index name = builder_.AddNumbered("bucket ", buckets_++);
      sent = {.tensors = std::exchange(filling_, {}),
              .gradients = operations_.AddRange({.first = name}, std::exchange(filled_, 0), type_,
                                                Category::kCommunication),
              .reduced = builder_.AddEvent(builder_.Named(name, " reduced"))};
      operations_.Allocate(step_.compute(), sent->gradients);
      Flatten(sent->tensors, sent->gradients);
      builder_.WaitForStream(reduction_, step_.compute(), ready_);
      operations_.AllReduce(reduction_, communicator_, sent->gradients, true);
      builder_.Record(reduction_, sent->reduced);
    }
    CopyBack();
    under_way_ = std::move(sent);
  }

  // Waits for the bucket in flight, and copies it back into its gradients.
  void CopyBack() {
    if (!under_way_) return;
    builder_.Wait(step_.compute(), under_way_->reduced);
    std::int64_t offset = 0;
    for (const int tensor : under_way_->tensors) {
      operations_.Copy(step_.compute(), "copy_from_bucket", gradients_.range(tensor),
                       under_way_->gradients.Part(offset, Elements(tensor)));
      offset += Elements(tensor);
    }
    operations_.Release(under_way_->gradients);
    under_way_.reset();
  }

  // A rank that owns nothing takes part with a few zeros.
  void TakeNorm() {
    for (const int tensor : Own().tensors) operations_.Reads(gradients_.range(tensor));
    operations_.Writes(norm_);
    operations_.Run(step_.compute(), "norm");
    if (model_communicator_ != kNone || shard_communicator_ != kNone) {
      builder_.WaitForStream(broadcasts_, step_.compute(), ready_);
      for (const Index communicator : {model_communicator_, shard_communicator_}) {
        if (communicator == kNone) continue;
        operations_.AllReduce(broadcasts_, communicator, norm_);
      }
      builder_.Record(broadcasts_, agreed_);
      builder_.Wait(step_.compute(), agreed_);
    } else {
      builder_.Record(step_.compute(), agreed_);
    }
    builder_.HostWait(agreed_);
  }

  // Gradients of other ranks' tensors go; the own ones are put together and clipped.
  void Update() {
    for (std::size_t t = 0; t < places_.size(); ++t) {
      const int tensor = static_cast<int>(t);
      if (places_[t].owner != groups_.shard_index()) gradients_.Release(tensor);
    }
    if (Own().tensors.empty()) return;
    const Range flat = operations_.AddRange({.first = builder_.AddText("own gradients")},
                                            OwnElements(), type_, Category::kGradient);
    operations_.Allocate(step_.compute(), flat);
    Flatten(Own().tensors, flat);
    for (const int tensor : Own().tensors) gradients_.Release(tensor);
    const Bytes wide = BytesOf(OwnElements(), DataType::kFp32);  // clipped in FP32
    operations_.Writes(flat);
    operations_.Traffic(wide, wide);
    operations_.Run(step_.compute(), "clip");
    const BufferUse written[] = {Reads(flat), Writes(optimizer_), Writes(Own().parameters)};
    const UpdatedTensor all{.elements = OwnElements()};
    WriteFrameworkUpdate(step_, plan_.training, {OwnElements(), {all}}, written, {});
    operations_.Release(flat);
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Plan& plan_;
  const ProcessGroups groups_;
  const DataType type_;
  Operations operations_;
  LocalGradients gradients_;
  std::int64_t limit_ = 0;  // elements in a bucket
  StreamId reduction_ = 0, broadcasts_ = 0;
  Index communicator_ = kNone, shard_communicator_ = kNone, model_communicator_ = kNone;
  std::vector<Owner> owners_;  // by index in the shard group
  std::vector<Place> places_;  // by tensor
  Range optimizer_, norm_;
  Index ready_ = kNone, agreed_ = kNone, updated_ = kNone, gathered_ = kNone;  // events
  std::vector<int> filling_;
  std::int64_t filled_ = 0;  // elements
  std::size_t buckets_ = 0;
  std::optional<SentBucket> under_way_;
};

}  // namespace

program::Program LowerInternEvo(const scenario::Scenario& scenario, const LowerOptions& options) {
  TrainingStep step(scenario, options);
  InternEvo strategy(step);
  return step.Write(strategy);
}

}  // namespace stepcast::lowering
