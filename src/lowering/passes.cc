#include "src/lowering/passes.h"

#include <algorithm>
#include <string>

#include "src/lowering/step_parts.h"
#include "src/parallel/axis.h"

namespace stepcast::lowering {
void ActivationOffload::AddBlock(int layer, Entries buffers) {
  blocks_.push_back({.layer = layer, .buffers = buffers});
}

void ActivationOffload::WritePrologue() {
  if (!active()) return;
  to_host_ = builder_.AddStream("activations to host");
  to_device_ = builder_.AddStream("activations to device");
  computed_ = builder_.AddEvent("block computed");
  begun_ = builder_.AddEvent("block's backward begins");
  for (Block& block : blocks_) {
    const std::string name = "activations of layer " + std::to_string(block.layer);
    block.at_host = builder_.AddEvent(name + " at the host");
    block.back = builder_.AddEvent(name + " back");
  }
}

int ActivationOffload::Find(int layer) const {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].layer == layer) return static_cast<int>(i);
  }
  return -1;
}

void ActivationOffload::AfterForward(int layer) {
  const int at = active() ? Find(layer) : -1;
  if (at < 0) return;
  if (at > 0) {
    const Block& before = blocks_[at - 1];
    builder_.Wait(kCompute, before.at_host);
    for (const Index buffer : before.buffers) builder_.Release(buffer);
  }
  if (at + 1 == static_cast<int>(blocks_.size())) return;
  const Block& block = blocks_[at];
  builder_.WaitForStream(to_host_, kCompute, computed_);
  for (const Index buffer : block.buffers) {
    builder_.ToHost(to_host_, builder_.SizeOf(buffer), {builder_.ReadsAll(buffer)});
  }
  builder_.Record(to_host_, block.at_host);
}

void ActivationOffload::BeforeBackward(int layer) {
  const int at = active() ? Find(layer) : -1;
  if (at < 0) return;
  if (at + 1 < static_cast<int>(blocks_.size())) builder_.Wait(kCompute, blocks_[at].back);
  if (at == 0) return;
  const Block& next = blocks_[at - 1];
  for (const Index buffer : next.buffers) builder_.Allocate(kCompute, buffer);
  builder_.WaitForStream(to_device_, kCompute, begun_);
  for (const Index buffer : next.buffers) {
    builder_.ToDevice(to_device_, builder_.SizeOf(buffer), {builder_.WritesAll(buffer)});
  }
  builder_.Record(to_device_, next.back);
}

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

ScaleUpdates::ScaleUpdates(const plan::Plan& plan, const parallel::Grids& grids,
                           const model::Model& model, ProgramBuilder& builder)
    : plan_(plan),
      grids_(grids),
      model_(model),
      builder_(builder),
      weights_(WeightsInFp8(plan, model)) {}

void ScaleUpdates::WritePrologue(StreamId compute) {
  if (weights_ == 0) return;
  const parallel::AxisSet all = parallel::kGradients | Axis::kTensor;
  const parallel::AxisSet of_sequence = parallel::kContext | Axis::kTensor;
  const Index communicator = builder_.AddCommunicator(
      "fp8 scales", grids_.Layout(plan_.training.tp_only_amax_red ? of_sequence : all));
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
      made.reduce = builder_.AddAllReduce(communicator, bytes, DataType::kFp32);
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
