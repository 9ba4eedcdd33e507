#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/lowering/autocast.h"
#include "src/lowering/comm_hook.h"
#include "src/lowering/framework_steps.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/gradients.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/lowering/update.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

class Ddp final : public FrameworkStrategy {
 public:
  explicit Ddp(TrainingStep& step)
      : FrameworkStrategy(step),
        views_(plan_.data_parallel.gradient_as_bucket_view),
        autocast_(step, operations_),
        gradients_(step, operations_, plan_.training.gradient_dtype),
        buckets_(step, operations_),
        clipping_(step),
        hook_(step) {}

  void WritePrologue() override {
    reduction_ = builder_.AddStream("nccl data");
    communicator_ =
        builder_.AddCommunicator("data", ProcessGroupsOf(step_.grids(), step_.rank()).data);
    AllocateFrameworkWorkspaces(step_);
    clipping_.WritePrologue(kNone);
    AddState();
    autocast_.AddLayers();
    if (communicator_ == kNone) return;
    hook_.WritePrologue(reduction_, communicator_);
    AddBuckets();
    if (plan_.data_parallel.find_unused_parameters) AddUsageMap();
  }

  void BeforeForward(int layer) override {
    autocast_.BeforeForward(layer, [this](int tensor) { return Parameter(tensor); });
  }
  void AfterBackward(int layer) override { autocast_.AfterBackward(layer); }

  void WriteGradient(int layer, int tensor) override {
    gradients_.Write(tensor, autocast_.ReadPlace(layer, tensor, Parameter(tensor).place));
  }

  void GradientReady(int tensor) override {
    autocast_.CastGradient(tensor, gradients_.Written(tensor));
    gradients_.Complete(tensor);
    if (!Reduces()) return;
    // A communication hook does its own division.
    const double ranks = hook_.active() ? 1 : static_cast<double>(plan::GradientRanks(plan_));
    const Range slot = buckets_.Slot(tensor);
    if (views_ && !plan_.data_parallel.no_sync && step_.micro_batch() > 0) {
      // The earlier gradient is a view of the slot: autograd adds to it, and the reducer divides it
      // in place (mark_variable_ready_dense).
      operations_.Accumulate(step_.compute(), "accumulate_gradient", slot,
                             gradients_.range(tensor));
      if (!hook_.active()) operations_.Scale(step_.compute(), "divide_gradient", slot, 1.0 / ranks);
    } else {
      operations_.Copy(step_.compute(), "copy_to_bucket", slot, gradients_.range(tensor),
                       1.0 / ranks);
    }
    if (views_) gradients_.Release(tensor);
    if (!buckets_.Fill(tensor)) return;
    buckets_.Ready(buckets_.bucket_of(tensor));
    buckets_.LaunchInOrder(buckets_.bucket_of(tensor), [this](std::size_t bucket) {
      if (hook_.active()) {
        hook_.Run(bucket, buckets_[bucket].reduced);
      } else {
        buckets_.Reduce(bucket);
      }
    });
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
    buckets_.EndLaunches();
  }

  void WriteUpdate() override {
    ParameterUpdate update(step_);
    for (int tensor = 0; tensor < Tensors(); ++tensor) {
      const bool apart = gradients_.exists(tensor);
      if (apart) update.ReadsGradients(gradients_.range(tensor));
      const Range gradient = apart ? gradients_.range(tensor) : buckets_.Slot(tensor);
      update.Updates(Parameter(tensor).place, gradient.place, optimizer_.At(offsets_[tensor]),
                     elements_, gradient.elements);
    }
    if (views_) {
      for (const GradientBucket& bucket : buckets_.all()) update.ReadsGradients(bucket.gradients);
    }
    update.WritesState(optimizer_);
    update.WritesState(parameters_);
    update.Write(clipping_, Tensors(), plan_.training.gradient_dtype, Updated());
    // zero_grad(set_to_none=True)
    for (int tensor = 0; tensor < Tensors(); ++tensor) {
      if (gradients_.exists(tensor)) gradients_.Release(tensor);
    }
  }

 private:
  Range Parameter(int tensor) const override {
    return parameters_.Part(offsets_[tensor], Elements(tensor));
  }

  // Every rank has all parameters and all states of the optimizer, in registration order.
  void AddState() {
    const plan::Training& training = plan_.training;
    for (const model::Tensor& tensor : step_.model().tensors) {
      offsets_.push_back(elements_);
      elements_ += tensor.elements;
    }
    parameters_ = operations_.AddRange({.first = builder_.AddText("parameters")}, elements_,
                                       training.parameter_dtype, Category::kParameter);
    optimizer_ =
        AddOptimizerStates(step_, operations_, {.first = builder_.AddText("optimizer states")},
                           {.elements = elements_, .exact = elements_}, Updated().tensors);
    operations_.Allocate(step_.compute(), parameters_);
    operations_.Allocate(step_.compute(), optimizer_);
    AddParameterState(step_, parameters_.place, 0, elements_);
    AddOptimizerState(step_, optimizer_.place, elements_, 0, elements_);
  }

  UpdatedTensors Updated() const {
    UpdatedTensors updated{.elements = elements_, .tensors = {}};
    for (int tensor = 0; tensor < Tensors(); ++tensor) {
      if (Elements(tensor) > 0) updated.tensors.push_back({tensor, Elements(tensor)});
    }
    return updated;
  }

  bool Reduces() const {
    return (step_.last_micro_batch() || !plan_.data_parallel.no_sync) && communicator_ != kNone;
  }

  // The buckets of a warm run, in launch order.
  std::vector<Bucket> BucketsOfModel() {
    const model::Model& model = step_.model();
    const Bytes limit = *plan_.data_parallel.bucket_size;
    const Bytes first_limit = *plan_.data_parallel.first_bucket_size;
    const std::int64_t bytes = SizeOf(plan_.training.gradient_dtype);
    if (!plan_.data_parallel.find_unused_parameters) {
      order_ = GradientReadyOrder(model, step_.works(), step_.work_of_layers());
      return AssignBuckets(model, order_, bytes, first_limit, limit);
    }
    order_ = AllTensors();  // that of definition
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
  }

  // The map of the parameters that each rank has used: 32 bits per tensor.
  void AddUsageMap() {
    usage_map_ = operations_.AddRange({.first = builder_.AddText("used parameters")}, Tensors(),
                                      DataType::kFp32, Category::kCommunication);
    operations_.Allocate(step_.compute(), usage_map_);
    usage_event_ = builder_.AddEvent("used parameters reduced");
  }

  const bool views_;
  Range parameters_, optimizer_;
  std::int64_t elements_ = 0;          // of all tensors
  std::vector<std::int64_t> offsets_;  // of parameters, by tensor
  StreamId reduction_ = 0;
  Index communicator_ = kNone;
  Autocast autocast_;
  LocalGradients gradients_;
  std::vector<int> order_;  // of tensors in buckets
  GradientBuckets buckets_;
  GradientClipping clipping_;
  CommHook hook_;
  Range usage_map_;
  Index usage_event_ = kNone;
};

}  // namespace

program::Program LowerDdp(const scenario::Scenario& scenario, const LowerOptions& options) {
  return LowerWith<Ddp>(scenario, options);
}

}  // namespace stepcast::lowering
