#include "src/lowering/gradient_clipping.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/lowering/step_parts.h"
#include "src/parallel/axis.h"
#include "src/plan/idle_settings.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {
using plan::ClippingKernels;
using program::BufferUse;
using program::Category;
using program::kNone;

bool GradientClipping::ScalesLoss() const { return plan::ScalesLoss(step_.plan()); }

void GradientClipping::AddLossScaling(Index communicator) {
  if (!ScalesLoss()) return;
  found_ = builder_.AddBuffer("found infinity", Bytes(4), Category::kWorkspace);
  builder_.Allocate(step_.compute(), found_);
  const bool fused =
      step_.plan().training.optimizer_implementation == plan::OptimizerImplementation::kFused;
  const plan::LossScaler scaler = plan::StyleOf(step_.plan().data_parallel.framework).loss_scaler;
  if (scaler == plan::LossScaler::kMegatron || !fused) {
    found_known_ = builder_.AddEvent("found infinity known");
  }
  if (communicator == kNone) return;
  all_reduce_found_ = builder_.AddAllReduce(communicator, Bytes(4), DataType::kFp32);
}

void GradientClipping::UndoLossScale(std::int64_t elements, DataType type,
                                     std::span<const BufferUse> gradients) {
  if (found_ == kNone) return;
  const StreamId compute = step_.compute();
  const Bytes all = BytesOf(elements, type);
  std::vector<BufferUse> uses(gradients.begin(), gradients.end());
  for (BufferUse& use : uses) use.write = true;
  uses.push_back(builder_.WritesAll(found_));
  const program::Elements flag = At(found_, 0, DataType::kFp32);
  builder_.With(Squares(flag, flag, 0, false));  // 0: all are finite
  builder_.Run(compute, builder_.AddKernel(MemoryKernel("unscale_gradients", type, all, all)),
               uses);
  if (all_reduce_found_ != kNone) {
    builder_.With(Collected(flag, flag, 1));
    builder_.Communicate(compute, all_reduce_found_, {builder_.WritesAll(found_)});
  }
  if (found_known_ != kNone) {
    builder_.Record(compute, found_known_);
    builder_.HostWait(found_known_);
  }
}

bool GradientClipping::TensorByTensor() const {
  const bool old = step_.plan().software.torch < Version{2, 0};
  return kernels_ == ClippingKernels::kTensorByTensor || kernels_ == ClippingKernels::kFsdp1 ||
         (kernels_ == ClippingKernels::kTorch && old);
}

bool GradientClipping::HostReadsNorm() const {
  const bool old = step_.plan().software.torch < Version{2, 0};
  return kernels_ == ClippingKernels::kApex || (kernels_ == ClippingKernels::kFsdp1 && old);
}

parallel::AxisSet GradientClipping::AxesOfNorm(model::ParameterGroup group, bool shared_out) const {
  using parallel::Axis;
  parallel::AxisSet axes = group == model::ParameterGroup::kExperts
                               ? Axis::kPipeline | Axis::kExpertTensor | parallel::kExpert
                               : Axis::kPipeline | Axis::kTensor;
  if (shared_out) axes = axes | plan::AxesOf(group).states;
  return axes;
}

void GradientClipping::WritePrologue(Index communicator) {
  if (!clips() && !ScalesLoss()) return;
  const plan::Parallelism& axes = step_.plan().parallelism;
  const bool shared_out = communicator != kNone;
  const parallel::Grids& grids = step_.grids();
  std::vector<Index> communicators{communicator};
  if (step_.stage().stages() > 1 || axes.tensor > 1) {
    const auto dense = AxesOfNorm(model::ParameterGroup::kDense, shared_out);
    communicators = {builder_.AddCommunicator("gradient norm", grids.Layout(dense))};
  }
  if (plan::HasExpertGroup(step_.plan()) && (axes.expert > 1 || axes.expert_tensor > 1)) {
    const auto dense = grids.Layout(AxesOfNorm(model::ParameterGroup::kDense, shared_out));
    const auto experts = grids.Layout(AxesOfNorm(model::ParameterGroup::kExperts, shared_out));
    if (experts != dense) {
      communicators.push_back(builder_.AddCommunicator("gradient norm of experts", experts));
    }
  }
  AddLossScaling(communicators.front());
  if (!clips()) return;
  const auto sums = static_cast<std::int64_t>(communicators.size());
  squares_ = builder_.AddBuffer("gradient norm", Bytes(4 * sums), Category::kWorkspace);
  builder_.Allocate(step_.compute(), squares_);
  if (HostReadsNorm()) known_ = builder_.AddEvent("gradient norm known");
  for (const Index over : communicators) {
    all_reduces_.push_back(over == kNone ? kNone
                                         : builder_.AddAllReduce(over, Bytes(4), DataType::kFp32));
  }
}

program::Elements GradientClipping::SumOf(model::ParameterGroup group) const {
  const std::size_t sum = all_reduces_.size() > 1 ? static_cast<std::size_t>(group) : 0;
  return At(squares_, static_cast<std::int64_t>(sum), DataType::kFp32);
}

void GradientClipping::Write(std::int64_t tensors, std::int64_t elements, DataType type,
                             std::span<const BufferUse> gradients,
                             std::span<const ClippedRange> ranges) {
  UndoLossScale(elements, type, gradients);
  const bool sums_up = std::any_of(all_reduces_.begin(), all_reduces_.end(),
                                   [](Index all_reduce) { return all_reduce != kNone; });
  if (!clips() || (tensors == 0 && !sums_up)) return;
  const StreamId compute = step_.compute();
  const double limit = *step_.plan().training.gradient_clipping;
  const std::int64_t kernels = TensorByTensor() ? std::max<std::int64_t>(tensors, 1) : 1;
  const Bytes each = BytesOf((elements + kernels - 1) / kernels, type);
  const Bytes norms(4 * tensors), one(4);
  const auto add = [&](const char* name, Bytes read, Bytes written) {
    return builder_.AddKernel(MemoryKernel(name, type, read, written));
  };
  const auto scalar = [&](const char* name) {
    builder_.Run(compute, add(name, one, one), {builder_.WritesAll(squares_)});
  };

  // Every effect is stated of the first kernel; the others do the same for their tensors.
  std::vector<BufferUse> reads(gradients.begin(), gradients.end());
  for (BufferUse& use : reads) use.write = false;
  reads.push_back(builder_.WritesAll(squares_));
  const program::Elements squares = At(squares_, 0, DataType::kFp32);
  for (std::size_t sum = 0; sum < all_reduces_.size(); ++sum) {
    const program::Elements own = At(squares_, static_cast<std::int64_t>(sum), DataType::kFp32);
    builder_.With(Squares(own, own, 0, false));  // this rank may have none of them
  }
  for (const ClippedRange& range : ranges) {
    if (!range.counted) continue;
    builder_.With(Squares(SumOf(range.group), range.place, range.elements, true));
  }
  const Index norm =
      add(TensorByTensor() ? "norm" : "multi_tensor_norm", each, TensorByTensor() ? one : norms);
  for (std::int64_t i = 0; i < kernels; ++i) builder_.Run(compute, norm, reads);
  const bool apex = kernels_ == ClippingKernels::kApex;
  if (!apex) {
    builder_.Run(compute, add("stack_norms", norms, norms), {builder_.WritesAll(squares_)});
    builder_.Run(compute, add("norm_of_norms", norms, one), {builder_.WritesAll(squares_)});
  }
  if (sums_up) {
    scalar("square");
    for (std::size_t sum = 0; sum < all_reduces_.size(); ++sum) {
      if (all_reduces_[sum] == kNone) continue;
      const program::Elements own = At(squares_, static_cast<std::int64_t>(sum), DataType::kFp32);
      builder_.With(Collected(own, own, 1));
      builder_.Communicate(compute, all_reduces_[sum], {Writes(own.buffer, own.offset, Bytes(4))});
    }
    for (std::size_t sum = 1; sum < all_reduces_.size(); ++sum) {
      builder_.With(
          Added(Move(squares, At(squares_, static_cast<std::int64_t>(sum), DataType::kFp32), 1)));
    }
    scalar("square_root");
  }
  if (known_ != kNone) {
    builder_.Record(compute, known_);
    builder_.HostWait(known_);
  }
  // On the host the factor costs nothing. On the device it takes a sum, a quotient, a product and a
  // limit.
  if (!apex) {
    for (const char* name : {"add_epsilon", "reciprocal", "times_limit", "clamp"}) scalar(name);
  }

  std::vector<BufferUse> writes(gradients.begin(), gradients.end());
  for (BufferUse& use : writes) use.write = true;
  writes.push_back(builder_.ReadsAll(squares_));
  for (const ClippedRange& range : ranges) {
    builder_.With(Clipped(range.place, squares, range.elements, limit));
  }
  const Index multiply = add(TensorByTensor() ? "clip_gradient" : "multi_tensor_clip", each, each);
  for (std::int64_t i = 0; i < kernels; ++i) builder_.Run(compute, multiply, writes);
}

}  // namespace stepcast::lowering
