#include "src/lowering/loss_scaling.h"

#include <vector>

#include "src/lowering/effects.h"
#include "src/lowering/memory_kernel.h"
#include "src/plan/loss_scaling.h"

namespace stepcast::lowering {

using program::BufferUse;
using program::Category;
using program::kNone;

bool LossScaling::scales() const { return plan::ScalesLoss(step_.plan()); }

plan::LossScaler LossScaling::scaler() const {
  return plan::StyleOf(step_.plan().data_parallel.framework).loss_scaler;
}

void LossScaling::WritePrologue(Index communicator) {
  if (!scales()) return;
  found_ = builder_.AddBuffer("found infinity", Bytes(4), Category::kWorkspace);
  builder_.Allocate(step_.compute(), found_);
  const bool fused =
      step_.plan().training.optimizer_implementation == plan::OptimizerImplementation::kFused;
  if (scaler() == plan::LossScaler::kMegatron || !fused) {
    known_ = builder_.AddEvent("found infinity known");
  }
  if (communicator == kNone) return;
  all_reduce_ = builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                        .communicator = communicator,
                                        .bytes = Bytes(4),
                                        .data_type = DataType::kFp32});
}

void LossScaling::Undo(std::int64_t elements, DataType type, std::span<const BufferUse> gradients) {
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
  if (all_reduce_ != kNone) {
    builder_.With(Collected(flag, flag, 1));
    builder_.Communicate(compute, all_reduce_, {builder_.WritesAll(found_)});
  }
  if (known_ != kNone) {
    builder_.Record(compute, known_);
    builder_.HostWait(known_);
  }
}

}  // namespace stepcast::lowering
