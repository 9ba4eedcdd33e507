#include "src/lowering/activation_offload.h"

#include <string>

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
    builder_.Copy(
        to_host_,
        {.direction = program::CopyDirection::kDeviceToHost, .bytes = builder_.SizeOf(buffer)},
        std::vector{builder_.ReadsAll(buffer)});
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
    builder_.Copy(
        to_device_,
        {.direction = program::CopyDirection::kHostToDevice, .bytes = builder_.SizeOf(buffer)},
        std::vector{builder_.WritesAll(buffer)});
  }
  builder_.Record(to_device_, next.back);
}

}  // namespace stepcast::lowering
