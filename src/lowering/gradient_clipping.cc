#include "src/lowering/gradient_clipping.h"

#include <algorithm>
#include <string>

#include "src/lowering/effects.h"
#include "src/lowering/memory_kernel.h"
#include "src/parallel/axis.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

using plan::ClippingKernels;
using program::BufferUse;
using program::Category;
using program::kNone;

bool GradientClipping::TensorByTensor() const {
  const bool old = step_.plan().software.torch < Version{2, 0};
  return kernels_ == ClippingKernels::kTensorByTensor || kernels_ == ClippingKernels::kFsdp1 ||
         (kernels_ == ClippingKernels::kTorch && old);
}

bool GradientClipping::HostReadsNorm() const {
  const bool old = step_.plan().software.torch < Version{2, 0};
  return kernels_ == ClippingKernels::kApex || (kernels_ == ClippingKernels::kFsdp1 && old);
}

void GradientClipping::WritePrologue(Index communicator) {
  if (!clips() && !scaling_.scales()) return;
  if (step_.stage().stages() > 1 || step_.plan().parallelism.tensor > 1) {
    parallel::AxisSet axes = parallel::Axis::kPipeline | parallel::Axis::kTensor;
    if (communicator != kNone) axes = axes | parallel::kStates;
    communicator =
        builder_.AddCommunicator("gradient norm", plan::GridOf(step_.plan()).Layout(axes));
  }
  scaling_.WritePrologue(communicator);
  if (!clips()) return;
  squares_ = builder_.AddBuffer("gradient norm", Bytes(4), Category::kWorkspace);
  builder_.Allocate(step_.compute(), squares_);
  if (HostReadsNorm()) known_ = builder_.AddEvent("gradient norm known");
  if (communicator == kNone) return;
  all_reduce_ = builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                        .communicator = communicator,
                                        .bytes = Bytes(4),
                                        .data_type = DataType::kFp32});
}

void GradientClipping::Write(std::int64_t tensors, std::int64_t elements, DataType type,
                             std::span<const BufferUse> gradients,
                             std::span<const ClippedRange> ranges) {
  scaling_.Undo(elements, type, gradients);
  if (!clips() || (tensors == 0 && all_reduce_ == kNone)) return;
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

  // Every effect is said of the first kernel: the others do the same for their tensors.
  std::vector<BufferUse> reads(gradients.begin(), gradients.end());
  for (BufferUse& use : reads) use.write = false;
  reads.push_back(builder_.WritesAll(squares_));
  const program::Elements squares = At(squares_, 0, DataType::kFp32);
  builder_.With(Squares(squares, squares, 0, false));  // this rank may have none of them
  for (const ClippedRange& range : ranges) {
    if (range.counted) builder_.With(Squares(squares, range.place, range.elements, true));
  }
  const Index norm =
      add(TensorByTensor() ? "norm" : "multi_tensor_norm", each, TensorByTensor() ? one : norms);
  for (std::int64_t i = 0; i < kernels; ++i) builder_.Run(compute, norm, reads);
  const bool apex = kernels_ == ClippingKernels::kApex;
  if (!apex) {
    builder_.Run(compute, add("stack_norms", norms, norms), {builder_.WritesAll(squares_)});
    builder_.Run(compute, add("norm_of_norms", norms, one), {builder_.WritesAll(squares_)});
  }
  if (all_reduce_ != kNone) {
    scalar("square");
    builder_.With(Collected(squares, squares, 1));
    builder_.Communicate(compute, all_reduce_, {builder_.WritesAll(squares_)});
    scalar("square_root");
  }
  if (known_ != kNone) {
    builder_.Record(compute, known_);
    builder_.HostWait(known_);
  }
  // On the host the factor costs nothing; on the device a sum, a quotient, a product, a limit.
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
