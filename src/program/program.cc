#include "src/program/program.h"

#include <algorithm>

namespace stepcast::program {

Index Texts::Add(std::string_view text) {
  all_.append(text);
  ends_.push_back(static_cast<std::uint32_t>(all_.size()));
  return size() - 1;
}

void Texts::Clear() {
  all_.clear();
  ends_.clear();
}

int ProcessGroup::PositionOf(int rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

std::string Program::Text(const NameParts& name) const {
  std::string text;
  if (name.first != kNone) text += texts[name.first];
  if (name.second != kNone) text += texts[name.second];
  return text;
}

const char* Name(Category category) {
  switch (category) {
    case Category::kParameter:
      return "parameters";
    case Category::kGradient:
      return "gradients";
    case Category::kOptimizer:
      return "optimizer";
    case Category::kActivation:
      return "activations";
    case Category::kCommunication:
      return "communication";
    case Category::kWorkspace:
      return "workspace";
  }
  return "";
}

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
    case Phase::kCheckpoint:
      return "checkpoint saving";
    case Phase::kBackwardWeight:
      return "backward of weights";
  }
  return "";
}

const char* Name(Opcode opcode) {
  switch (opcode) {
    case Opcode::kKernel:
      return "kernel";
    case Opcode::kCopy:
      return "copy";
    case Opcode::kCollective:
      return "collective";
    case Opcode::kExchange:
      return "exchange";
    case Opcode::kHostTask:
      return "host-task";
    case Opcode::kRecordEvent:
      return "record-event";
    case Opcode::kWaitEvent:
      return "wait-event";
    case Opcode::kHostWaitEvent:
      return "host-wait-event";
    case Opcode::kAllocate:
      return "allocate";
    case Opcode::kRelease:
      return "release";
    case Opcode::kRecordStream:
      return "record-stream";
  }
  return "";
}

const char* Name(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::kDeviceToDevice:
      return "device-to-device";
    case CopyDirection::kHostToDevice:
      return "host-to-device";
    case CopyDirection::kDeviceToHost:
      return "device-to-host";
  }
  return "";
}

const char* Name(MessageDirection direction) {
  switch (direction) {
    case MessageDirection::kSend:
      return "send";
    case MessageDirection::kReceive:
      return "receive";
  }
  return "";
}

}  // namespace stepcast::program
