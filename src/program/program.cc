#include "src/program/program.h"

#include <algorithm>
#include <cstddef>

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
  constexpr const char* kNames[] = {"parameters",  "gradients",     "optimizer",
                                    "activations", "communication", "workspace"};
  return kNames[static_cast<std::size_t>(category)];
}

const char* Name(Phase phase) {
  constexpr const char* kNames[] = {"forward", "backward", "optimizer", "checkpoint saving",
                                    "backward of weights"};
  return kNames[static_cast<std::size_t>(phase)];
}

const char* Name(Opcode opcode) {
  constexpr const char* kNames[] = {"kernel",    "copy",         "collective",   "exchange",
                                    "host-task", "record-event", "wait-event",   "host-wait-event",
                                    "allocate",  "release",      "record-stream"};
  return kNames[static_cast<std::size_t>(opcode)];
}

const char* Name(CopyDirection direction) {
  constexpr const char* kNames[] = {"device-to-device", "host-to-device", "device-to-host"};
  return kNames[static_cast<std::size_t>(direction)];
}

const char* Name(MessageDirection direction) {
  constexpr const char* kNames[] = {"send", "receive"};
  return kNames[static_cast<std::size_t>(direction)];
}

}  // namespace stepcast::program
