#include "src/lowering/ddp.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "src/lowering/autocast.h"
#include "src/lowering/buckets.h"
#include "src/lowering/comm_hook.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/gradient_buckets.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/operations.h"
#include "src/lowering/parameter_update.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/replicated_state.h"
#include "src/lowering/training_step.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::kNone;

class Ddp final : public ShardingStrategy {
 public:
  explicit Ddp(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        plan_(step.plan()),
        views_(plan_.data_parallel.gradient_as_bucket_view),
        operations_(builder_),
        state_(step, operations_),
        autocast_(step, operations_),
        gradients_(step, operations_, plan_.training.gradient_dtype),
        buckets_(step, operations_),
        clipping_(step),
        hook_(step) {}

  void WritePrologue() override {
    reduction_ = builder_.AddStream("nccl data");
    communicator_ = builder_.AddCommunicator("data", ProcessGroupsOf(plan_, step_.rank()).data);
    AllocateFrameworkWorkspaces(step_);
    clipping_.WritePrologue(kNone);
    state_.WritePrologue();
    autocast_.AddLayers();
    if (communicator_ == kNone) return;
    hook_.WritePrologue(reduction_, communicator_);
    AddBuckets();
    if (plan_.data_parallel.find_unused_parameters) AddUsageMap();
  }

  void BeforeForward(int layer) override {
    autocast_.BeforeForward(layer, [this](int tensor) { return state_.Parameter(tensor); });
  }
  void AfterForward(int) override {}
  void BeforeBackward(int) override {}
  void AfterBackward(int layer) override { autocast_.AfterBackward(layer); }

  void AppendParameterReads(int layer, std::vector<BufferUse>& uses) override {
    for (const int tensor : step_.model().layers[layer].tensors) {
      uses.push_back(Reads(state_.Parameter(tensor)));
    }
  }

  void WriteGradient(int layer, int tensor) override {
    gradients_.Write(tensor, autocast_.ReadPlace(layer, tensor, state_.Parameter(tensor).place));
  }

  void GradientReady(int tensor) override {
    autocast_.CastGradient(tensor, gradients_.Written(tensor));
    gradients_.Complete(tensor);
    if (!Reduces()) return;
    // A communication hook divides for itself.
    const double ranks = hook_.active() ? 1 : static_cast<double>(plan::GradientRanks(plan_));
    operations_.Copy(step_.compute(), "copy_to_bucket", buckets_.Slot(tensor),
                     gradients_.range(tensor), 1.0 / ranks);
    if (views_) gradients_.Release(tensor);
    if (!buckets_.Fill(tensor)) return;
    buckets_.Ready(buckets_.bucket_of(tensor));
    full_[buckets_.bucket_of(tensor)] = true;
    LaunchInOrder();
  }

  void EndBackward() override {
    if (!Reduces()) return;
    if (usage_map_) {
      builder_.WaitForStream(reduction_, step_.compute(), usage_event_);
      operations_.AllReduce(reduction_, communicator_, usage_map_);
      builder_.Record(reduction_, usage_event_);
    }
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      buckets_.Await(i);
      if (hook_.active()) hook_.Release(i);
      if (views_) continue;
      for (const int tensor : buckets_[i].tensors) {
        operations_.Copy(step_.compute(), "copy_from_bucket", gradients_.range(tensor),
                         buckets_.Slot(tensor));
      }
    }
    if (usage_map_) builder_.Wait(step_.compute(), usage_event_);
    next_bucket_ = 0;
    std::fill(full_.begin(), full_.end(), false);
  }

  void WriteUpdate() override {
    ParameterUpdate update(step_);
    const int tensors = static_cast<int>(step_.model().tensors.size());
    for (int tensor = 0; tensor < tensors; ++tensor) {
      const bool apart = gradients_.exists(tensor);
      if (apart) update.ReadsGradients(gradients_.range(tensor));
      state_.AppendUpdate(tensor, apart ? gradients_.range(tensor) : buckets_.Slot(tensor), update);
    }
    if (views_) {
      for (const GradientBucket& bucket : buckets_.all()) update.ReadsGradients(bucket.gradients);
    }
    state_.Write(update, clipping_);
    // zero_grad(set_to_none=True)
    for (int tensor = 0; tensor < tensors; ++tensor) {
      if (gradients_.exists(tensor)) gradients_.Release(tensor);
    }
  }

 private:
  bool Reduces() const { return step_.last_micro_batch() && communicator_ != kNone; }

  // Of a warm run, in launch order.
  std::vector<Bucket> BucketsOfModel() {
    const model::Model& model = step_.model();
    const Bytes limit = *plan_.data_parallel.bucket_size;
    const Bytes first_limit = *plan_.data_parallel.first_bucket_size;
    const std::int64_t bytes = SizeOf(plan_.training.gradient_dtype);
    if (!plan_.data_parallel.find_unused_parameters) {
      order_ = GradientReadyOrder(model, step_.works(), step_.work_of_layers());
      return AssignBuckets(model, order_, bytes, first_limit, limit);
    }
    order_.resize(model.tensors.size());  // that of definition
    std::iota(order_.begin(), order_.end(), 0);
    auto buckets = AssignBuckets(model, order_, bytes, first_limit, limit);
    std::reverse(buckets.begin(), buckets.end());
    return buckets;
  }

  void AddBuckets() {
    const DataType type = plan_.training.gradient_dtype;
    buckets_.SetGroup(reduction_, communicator_);
    for (const Bucket& bucket : BucketsOfModel()) {
      const Range gradients =
          buckets_.Add(bucket.tensors, Packed(bucket.elements), "", type, 0).gradients;
      operations_.Allocate(step_.compute(), gradients);
      hook_.AddBucket(gradients.buffer(), bucket.tensors, type);
    }
    full_.assign(buckets_.size(), false);
  }

  // What each rank has used of the parameters: 32 bits for each tensor.
  void AddUsageMap() {
    usage_map_ = operations_.AddRange({.first = builder_.AddText("used parameters")},
                                      static_cast<std::int64_t>(step_.model().tensors.size()),
                                      DataType::kFp32, program::Category::kCommunication);
    operations_.Allocate(step_.compute(), usage_map_);
    usage_event_ = builder_.AddEvent("used parameters reduced");
  }

  // A bucket is launched when it and all before it are full.
  void LaunchInOrder() {
    for (; next_bucket_ < buckets_.size() && full_[next_bucket_]; ++next_bucket_) {
      if (hook_.active()) {
        hook_.Run(next_bucket_, buckets_[next_bucket_].reduced);
      } else {
        buckets_.Reduce(next_bucket_);
      }
    }
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Plan& plan_;
  const bool views_;

  StreamId reduction_ = 0;
  Index communicator_ = kNone;
  Operations operations_;
  ReplicatedState state_;
  Autocast autocast_;
  LocalGradients gradients_;
  std::vector<int> order_;  // of tensors in buckets
  GradientBuckets buckets_;
  std::vector<bool> full_;
  std::size_t next_bucket_ = 0;
  GradientClipping clipping_;
  CommHook hook_;
  Range usage_map_;
  Index usage_event_ = kNone;
};

}  // namespace

program::Program LowerDdp(const scenario::Scenario& scenario, const LowerOptions& options) {
  TrainingStep step(scenario, options);
  Ddp strategy(step);
  return step.Write(strategy);
}

}  // namespace stepcast::lowering
