#include <utility>

#include "src/lowering/deepspeed_parts.h"
#include "src/lowering/model_state.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/update.h"
#include "src/parallel/axis.h"
#include "src/plan/optimizer_states.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

using program::BufferUse;
using program::Category;
using program::kNone;

DeepSpeedUpdate::DeepSpeedUpdate(TrainingStep& step, Index communicator, Index experts)
    : step_(step),
      builder_(step.builder()),
      training_(step.plan().training),
      fp32_(training_),
      communicator_(communicator) {
  fp32_.parameter_dtype = fp32_.gradient_dtype = DataType::kFp32;
  scalar_ = builder_.AddBuffer("gradient norm", Bytes(8), Category::kWorkspace);
  builder_.Allocate(step.compute(), scalar_);
  reduced_ = builder_.AddEvent("overflow known");
  const auto all_reduce = [&](Index over, bool average) {
    return builder_.AddAllReduce(over, Bytes(4), DataType::kFp32, average);
  };
  const auto add = [&](Index over) {
    if (over != kNone) all_reduces_.push_back(all_reduce(over, false));
  };
  add(communicator_);
  if (experts != kNone) average_ = all_reduce(experts, true);
  const parallel::AxisSet parts =
      parallel::AxisSet(parallel::Axis::kTensor) | parallel::Axis::kPipeline;
  add(builder_.AddCommunicator("model", step.grids().Layout(parts)));
}

Index DeepSpeedUpdate::MemoryKernel(const char* name, std::int64_t elements,
                                    std::int64_t read_bytes, std::int64_t written_bytes) {
  return builder_.AddKernel({.name = name,
                             .kind = KernelKind::kMemoryBound,
                             .data_type = DataType::kFp32,
                             .read = Bytes(elements * read_bytes),
                             .written = Bytes(elements * written_bytes)});
}

UpdateGroup DeepSpeedUpdate::AddGroup(const std::string& name, std::int64_t elements,
                                      std::int64_t padding) {
  const std::int64_t kept = SizeOf(training_.gradient_dtype);
  const DataType parameters = training_.parameter_dtype;
  const auto add = [&](const char* what, std::int64_t bytes, Category category) {
    return builder_.AddBuffer(name + what, Bytes(elements * bytes), category,
                              Bytes(padding * bytes));
  };
  UpdateGroup group;
  group.elements = elements;
  // The optimizer's states are one vector.
  const Bytes moments = plan::MomentBytes(step_.plan(), {.elements = elements});
  const Bytes own_moments = plan::MomentBytes(step_.plan(), {.elements = elements - padding});
  group.states =
      builder_.AddBuffer(name + "FP32 partition and moments", Bytes(elements * 4) + moments,
                         Category::kOptimizer, Bytes(padding * 4) + moments - own_moments);
  builder_.Allocate(step_.compute(), group.states);
  group.flat = add("flat gradients", kept, Category::kGradient);
  group.flatten = MemoryKernel("flatten_gradients", elements, kept, kept);
  group.gradients = group.flat;
  if (training_.gradient_dtype != DataType::kFp32) {
    group.gradients = add("FP32 gradients", 4, Category::kGradient);
    group.cast = MemoryKernel("cast_gradients", elements, kept, 4);
  }
  group.unscale = MemoryKernel("unscale_gradients", elements, 4, 4);
  group.copy = MemoryKernel("copy_to_parameters", elements, 4, SizeOf(parameters));
  return group;
}

program::Elements DeepSpeedUpdate::StatesOf(const UpdateGroup& group, std::int64_t offset) const {
  const bool master = plan::KeepsMasterWeights(training_);
  return At(group.states, offset + (master ? 0 : group.elements), DataType::kFp32);
}

void DeepSpeedUpdate::AddState(const UpdateGroup& group, std::int64_t offset, std::int64_t first,
                               std::int64_t count) {
  AddOptimizerState(step_, StatesOf(group, offset), group.elements, first, count);
}

void DeepSpeedUpdate::AgreeOnScalar(std::span<const program::Effect> then, bool of_experts) {
  const program::Elements latest = At(scalar_, 0, DataType::kFp32);
  std::vector<Index> all = all_reduces_;
  if (of_experts && average_ != kNone) all.push_back(average_);
  for (std::size_t i = 0; i < all.size(); ++i) {
    builder_.With(Collected(latest, latest, 1));
    if (i + 1 == all.size()) builder_.With(then);
    builder_.Communicate(step_.compute(), all[i], {builder_.WritesAll(scalar_)});
  }
}

void DeepSpeedUpdate::CheckOverflow(StreamId stream, std::int64_t tensors, std::int64_t elements,
                                    const std::vector<BufferUse>& uses) {
  if (training_.parameter_dtype != DataType::kFp16 || tensors == 0) return;
  const std::int64_t each = (elements + tensors - 1) / tensors;
  const std::int64_t kept = SizeOf(training_.gradient_dtype);
  // isinf and isnan each write one byte an element, which is then searched.
  const Index kernels[] = {MemoryKernel("isinf", each, kept, 1), MemoryKernel("any", each, 1, 0),
                           MemoryKernel("isnan", each, kept, 1), MemoryKernel("any", each, 1, 0)};
  for (std::int64_t tensor = 0; tensor < tensors; ++tensor) {
    for (const Index kernel : kernels) builder_.Run(stream, kernel, uses);
  }
  if (stream != step_.compute()) builder_.WaitForStream(step_.compute(), stream, reduced_);
  AgreeOnScalar();
  builder_.Record(step_.compute(), reduced_);
  builder_.HostWait(reduced_);
}

program::Effect DeepSpeedUpdate::SquaresOf(const program::Elements& source, std::int64_t elements,
                                           std::int64_t copies) const {
  return Squares(At(scalar_, 0, DataType::kFp32), source, elements, true,
                 1.0 / static_cast<double>(copies));
}

void DeepSpeedUpdate::TakeNorm(std::int64_t tensors, std::int64_t elements,
                               const std::vector<BufferUse>& uses,
                               std::span<const program::Effect> squares, bool first,
                               bool of_experts) {
  if (tensors == 0) return;
  // The effect is stated of the first kernel and of the last one. This rank may own none of the
  // elements.
  const bool clips = training_.gradient_clipping.has_value();
  const program::Elements latest = At(scalar_, 0, DataType::kFp32);
  const program::Elements sum = At(scalar_, 1, DataType::kFp32);
  const program::Effect add = first ? Move(sum, latest, 1) : Added(Move(sum, latest, 1));
  // Each tensor is cast to FP64 first.
  const std::int64_t each = (elements + tensors - 1) / tensors;
  const Index cast = MemoryKernel("cast_to_fp64", each, SizeOf(training_.gradient_dtype), 8);
  const Index norm = MemoryKernel("norm", each, 8, 0);
  const Index wide = builder_.AddBuffer("gradient in FP64", Bytes(each * 8), Category::kWorkspace);
  for (std::int64_t tensor = 0; tensor < tensors; ++tensor) {
    builder_.Allocate(step_.compute(), wide);
    std::vector<BufferUse> all = uses;
    all.push_back(builder_.WritesAll(wide));
    if (tensor == 0 && clips) {
      all.push_back(builder_.WritesAll(scalar_));
      builder_.With(Squares(latest, latest, 0, false));
      builder_.With(squares);
    }
    builder_.Run(step_.compute(), cast, all);
    if (tensor + 1 == tensors && clips && all_reduces_.empty()) builder_.With(add);
    builder_.Run(step_.compute(), norm, {builder_.ReadsAll(wide), builder_.WritesAll(scalar_)});
    builder_.Release(wide);
  }
  AgreeOnScalar(clips ? std::span(&add, 1) : std::span<const program::Effect>(), of_experts);
}

void DeepSpeedUpdate::Flatten(const UpdateGroup& group, std::vector<BufferUse> uses,
                              std::span<const program::Effect> moves) {
  builder_.Allocate(step_.compute(), group.flat);
  uses.push_back(builder_.WritesAll(group.flat));
  builder_.With(moves);
  builder_.Run(step_.compute(), group.flatten, uses);
  if (group.cast == kNone) return;
  builder_.Allocate(step_.compute(), group.gradients);
  builder_.With(Move(At(group.gradients, 0, DataType::kFp32),
                     At(group.flat, 0, training_.gradient_dtype), group.elements));
  builder_.Run(step_.compute(), group.cast,
               {builder_.ReadsAll(group.flat), builder_.WritesAll(group.gradients)});
  builder_.Release(group.flat);
}

void DeepSpeedUpdate::Apply(const UpdateGroup& group, const std::vector<BufferUse>& parameters,
                            std::span<const program::Effect> updates) {
  const StreamId compute = step_.compute();
  std::vector<BufferUse> unscaled = {builder_.WritesAll(group.gradients)};
  if (training_.gradient_clipping) {
    // The factor that undoes the loss scale brings the norm down, too.
    const Index factor = MemoryKernel("clip_factor", 1, 4, 4);
    for (int i = 0; i < 4; ++i) builder_.Run(compute, factor, {builder_.WritesAll(scalar_)});
    unscaled.push_back(builder_.ReadsAll(scalar_));
    builder_.With(Clipped(At(group.gradients, 0, DataType::kFp32), At(scalar_, 1, DataType::kFp32),
                          group.elements, *training_.gradient_clipping));
  }
  builder_.Run(compute, group.unscale, unscaled);
  std::vector<BufferUse> uses = {builder_.ReadsAll(group.gradients),
                                 builder_.WritesAll(group.states)};
  const UpdatedTensor all{.tensor = -1, .elements = group.elements};
  WriteFrameworkUpdate(step_, fp32_, {group.elements, {all}}, uses, {});
  // As for all optimizers, the effect is stated of the kernel that writes the parameters.
  uses = parameters;
  uses.push_back(builder_.ReadsAll(group.gradients));
  uses.push_back(builder_.WritesAll(group.states));
  builder_.With(updates);
  builder_.Run(compute, group.copy, uses);
  builder_.Release(group.gradients);
}

program::Effect DeepSpeedUpdate::UpdateOf(const UpdateGroup& group, const program::Elements& place,
                                          std::int64_t offset, std::int64_t count) const {
  return OptimizerUpdate(place, At(group.gradients, offset, DataType::kFp32),
                         StatesOf(group, offset), group.elements, count);
}

}  // namespace stepcast::lowering
