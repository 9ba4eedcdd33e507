#include "src/lowering/lowering.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "src/base/check.h"
#include "src/lowering/autocast.h"
#include "src/lowering/comm_hook.h"
#include "src/lowering/framework_steps.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/gradients.h"
#include "src/lowering/lower_options.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/lowering/update.h"
#include "src/plan/pipeline.h"
#include "src/plan/rank_grid.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {
// PyTorch's DistributedDataParallel after warm-up, with buckets rebuilt from the observed ready
// order (torch/csrc/distributed/c10d/reducer.cpp, torch/nn/parallel/distributed.py, read at PyTorch
// 2.6.0 and 2.14.1). The first iteration, which has one bucket for everything, is not modeled.
//
//  * In the last micro-batch, a hook per parameter copies its gradient into the bucket's slot,
//    scaled by 1 / ranks. A full bucket is all-reduced on the process group's own stream. Buckets
//    are launched strictly in order, and one communicator runs them one after the other.
//  * Earlier micro-batches run under no_sync: gradients accumulate where they are. Without no_sync
//    every backward reduces. A bucket then holds the mean of the earlier micro-batches, equal on all
//    ranks, and the latest gradients; the mean of that over ranks is the sum of the means.
//  * FP32 parameters with 16-bit precision run under autocast: every layer's matrices are cast
//    before its forward, autograd keeps the copies for backward, and each gradient is cast up.
//  * After the backward, the compute stream waits for each bucket in turn and copies its slots back
//    into the gradients, unless gradient_as_bucket_view makes the gradients views of the slots. The
//    update starts after the last one.
//  * Gradients are None at the start of a step (zero_grad(set_to_none=True)). Each backward
//    therefore writes them to new memory, and the copy into the slot takes place with views too.
//  * find_unused_parameters: buckets are never rebuilt. Limits apply in definition order and the
//    list is reversed, so the small first bucket is reduced last. An int32 per parameter is
//    all-reduced as well.
program::Program LowerDdp(const scenario::Scenario& scenario, const LowerOptions& options);

// The state of a rank that has a full copy of the model: all parameters and optimizer arrays, in
// registration order.

class ReplicatedState {
 public:
  ReplicatedState(TrainingStep& step, Operations& operations)
      : step_(step), operations_(operations) {}

  // Adds and allocates the parameters and the optimizer's states.
  void WritePrologue();

  Range Parameter(int tensor) const {
    return parameters_.Part(offsets_[tensor], step_.model().tensors[tensor].elements);
  }
  void AppendUpdate(int tensor, const Range& gradient, ParameterUpdate& update) const;
  // Writes the update of all tensors, in registration order.
  void Write(ParameterUpdate& update, GradientClipping& clipping) const;

 private:
  UpdatedTensors Updated() const;

  TrainingStep& step_;
  Operations& operations_;
  Range parameters_, optimizer_;
  std::int64_t elements_ = 0;
  std::vector<std::int64_t> offsets_;  // of parameters, by tensor
};

using program::Category;

void ReplicatedState::WritePrologue() {
  ProgramBuilder& builder = step_.builder();
  const plan::Training& training = step_.plan().training;
  for (const model::Tensor& tensor : step_.model().tensors) {
    offsets_.push_back(elements_);
    elements_ += tensor.elements;
  }
  parameters_ = operations_.AddRange({.first = builder.AddText("parameters")}, elements_,
                                     training.parameter_dtype, Category::kParameter);
  const program::NameParts states{.first = builder.AddText("optimizer states")};
  if (plan::HasEqualMoments(training.optimizer)) {
    const plan::OptimizerArrays arrays = plan::OptimizerArraysOf(training);
    optimizer_ =
        operations_.AddRange(states, elements_ * arrays.count, arrays.type, Category::kOptimizer);
  } else {
    optimizer_ = AddOptimizerStates(step_, operations_, states, Updated().tensors);
  }
  operations_.Allocate(step_.compute(), parameters_);
  operations_.Allocate(step_.compute(), optimizer_);
  if (!builder.describes_data_flow()) return;
  AddParameterState(step_, parameters_.place, 0, elements_);
  AddOptimizerState(step_, optimizer_.place, elements_, 0, elements_);
}

void ReplicatedState::AppendUpdate(int tensor, const Range& gradient,
                                   ParameterUpdate& update) const {
  update.Updates(Parameter(tensor).place, gradient.place, optimizer_.At(offsets_[tensor]),
                 elements_, gradient.elements);
}

void ReplicatedState::Write(ParameterUpdate& update, GradientClipping& clipping) const {
  update.WritesState(optimizer_);
  update.WritesState(parameters_);
  update.Write(clipping, static_cast<std::int64_t>(step_.model().tensors.size()),
               step_.plan().training.gradient_dtype, Updated());
}

UpdatedTensors ReplicatedState::Updated() const {
  UpdatedTensors updated{.elements = elements_, .tensors = {}};
  const auto& tensors = step_.model().tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].elements == 0) continue;
    updated.tensors.push_back({.tensor = static_cast<int>(t), .elements = tensors[t].elements});
  }
  return updated;
}

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

  // The map of the parameters that each rank has used: 32 bits per tensor.
  void AddUsageMap() {
    usage_map_ = operations_.AddRange({.first = builder_.AddText("used parameters")},
                                      static_cast<std::int64_t>(step_.model().tensors.size()),
                                      DataType::kFp32, program::Category::kCommunication);
    operations_.Allocate(step_.compute(), usage_map_);
    usage_event_ = builder_.AddEvent("used parameters reduced");
  }

  // Launches every bucket that is full and whose predecessors are full.
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

std::vector<program::Program> Lower(const scenario::Scenario& scenario,
                                    const std::vector<model::LayerWork>* works,
                                    const std::function<void(program::Program&)>& lowered) {
  const plan::RankLabels labels(scenario.plan);
  const parallel::PipelineSchedule schedule = plan::ScheduleOf(scenario.plan);
  std::vector<program::Program> programs;
  for (std::size_t label = 0; label < labels.distinct().size(); ++label) {
    programs.push_back(LowerRank(
        scenario, {.rank = labels.FirstRank(label), .works = works, .schedule = &schedule}));
    if (lowered) lowered(programs.back());
  }
  return programs;
}

program::Program LowerRank(const scenario::Scenario& scenario, const LowerOptions& options) {
  STEPCAST_CHECK(options.rank >= 0 && options.rank < plan::GridsOf(scenario.plan).ranks(),
                 "the rank is one of the plan's");
  switch (scenario.plan.data_parallel.framework) {
    case plan::Framework::kReference:
      return LowerReference(scenario, options);
    case plan::Framework::kDdp:
      return LowerDdp(scenario, options);
    case plan::Framework::kFsdp2:
      return LowerFsdp2(scenario, options);
    case plan::Framework::kMegatron:
      return LowerMegatron(scenario, options);
    case plan::Framework::kFsdp1:
      return LowerFsdp1(scenario, options);
    case plan::Framework::kNanotron:
      return LowerNanotron(scenario, options);
    case plan::Framework::kDeepSpeed:
      return scenario.plan.data_parallel.zero_stage == 3 ? LowerDeepSpeedStage3(scenario, options)
                                                         : LowerDeepSpeed(scenario, options);
  }
  STEPCAST_CHECK(false, "legality lets through only frameworks that have a lowering");
  return {};
}

std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank) {
  std::vector<program::ProcessGroup> groups = program.groups;
  for (program::ProcessGroup& group : groups) group.ranks = group.layout.Ranks(rank);
  return groups;
}

}  // namespace stepcast::lowering
