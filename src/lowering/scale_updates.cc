#include "src/lowering/scale_updates.h"

#include <algorithm>

#include "src/lowering/effects.h"
#include "src/lowering/memory_kernel.h"
#include "src/parallel/axis.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {
namespace {

using parallel::Axis;
using program::kNone;

// Input, weight and output of a linear layer; gradients of output and input
// (transformer_engine/common/include, FP8FwdTensors and FP8BwdTensors).
constexpr std::int64_t kForwardTensors = 3, kBackwardTensors = 2;
// DelayedScaling's default, amax_history_len.
constexpr std::int64_t kHistory = 1024;

std::int64_t WeightsInFp8(const plan::Plan& plan, const model::Model& model) {
  const plan::Training& training = plan.training;
  if (training.precision != DataType::kFp8 || model.is_layer_list() ||
      training.fp8_scaling != model::Fp8Scaling::kDelayed) {
    return 0;
  }
  std::int64_t weights = 0;
  const auto count = [&](const std::vector<int>& indices,
                         const std::vector<model::Tensor>& tensors) {
    weights += std::count_if(indices.begin(), indices.end(), [&](int tensor) {
      return tensors[static_cast<std::size_t>(tensor)].shape.size() > 1;
    });
  };
  for (const model::Layer& layer : model.layers) {
    if (layer.kind != model::LayerKind::kBlock) continue;
    count(layer.tensors, model.tensors);
    count(layer.frozen, model.frozen);
  }
  return weights;
}

}  // namespace

ScaleUpdates::ScaleUpdates(const plan::Plan& plan, const model::Model& model,
                           ProgramBuilder& builder)
    : plan_(plan), model_(model), builder_(builder), weights_(WeightsInFp8(plan, model)) {}

void ScaleUpdates::WritePrologue(StreamId compute) {
  if (weights_ == 0) return;
  const parallel::AxisSet all = parallel::kGradients | Axis::kTensor;
  const parallel::AxisSet of_sequence = parallel::kContext | Axis::kTensor;
  const Index communicator = builder_.AddCommunicator(
      "fp8 scales",
      plan::GridsOf(plan_).Layout(plan_.training.tp_only_amax_red ? of_sequence : all));
  largest_ = builder_.AddBuffer("largest numbers in FP8",
                                BytesOf(kForwardTensors * weights_, DataType::kFp32),
                                program::Category::kWorkspace);
  builder_.Allocate(compute, largest_);
  const auto update = [&](std::int64_t tensors) {
    const Bytes bytes = BytesOf(tensors, DataType::kFp32);
    const auto kernel = [&](const char* name, Bytes read, Bytes written) {
      return builder_.AddKernel(MemoryKernel(name, DataType::kFp32, read, written));
    };
    Update made{.gather = kernel("concatenate_amaxes", bytes, bytes),
                .renew = kernel("update_scales", bytes + kHistory * bytes, kHistory * bytes),
                .tensors = tensors};
    if (communicator != kNone) {
      made.reduce = builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                            .communicator = communicator,
                                            .bytes = bytes,
                                            .data_type = DataType::kFp32});
    }
    return made;
  };
  forward_ = update(kForwardTensors * weights_);
  backward_ = update(kBackwardTensors * weights_);
}

void ScaleUpdates::AfterLayer(StreamId compute, parallel::Task task, int layer, int first,
                              int end) {
  if (weights_ == 0 || !IsBlock(layer)) return;
  const bool forward = task == parallel::Task::kForward;
  const int next = forward ? layer + 1 : layer - 1;
  if (next >= first && next < end && IsBlock(next)) return;
  Write(compute, forward ? forward_ : backward_);
}

void ScaleUpdates::Write(StreamId compute, const Update& update) {
  const Bytes bytes = BytesOf(update.tensors, DataType::kFp32);
  const program::Elements place = At(largest_, 0, DataType::kFp32);
  builder_.With(Squares(place, place, 0, false));
  builder_.Run(compute, update.gather, {Writes(largest_, Bytes(), bytes)});
  if (update.reduce != kNone) {
    builder_.With(Collected(place, place, update.tensors));
    builder_.Communicate(compute, update.reduce, {Writes(largest_, Bytes(), bytes)});
  }
  builder_.Run(compute, update.renew, {Reads(largest_, Bytes(), bytes)});
}

}  // namespace stepcast::lowering
