#include "src/runtime/watch_messages.h"

#include <algorithm>

#include "src/base/printable.h"

namespace stepcast::runtime::watching {

std::string ToBytes(MessageKind kind) {
  messaging::ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(kind));
  return writer.Take();
}

std::string ToBytes(const Heartbeat& heartbeat) {
  messaging::ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(MessageKind::kHeartbeat));
  writer.Number(static_cast<std::uint64_t>(heartbeat.stage));
  writer.Number(heartbeat.operations);
  writer.Number(heartbeat.step);
  writer.Number(heartbeat.instruction);
  return writer.Take();
}

Heartbeat ReadHeartbeat(messaging::ByteReader& reader) {
  Heartbeat heartbeat;
  heartbeat.stage = static_cast<Stage>(
      std::min(reader.Number(), static_cast<std::uint64_t>(Stage::kForecasting)));
  heartbeat.operations = reader.Number();
  heartbeat.step = static_cast<std::uint32_t>(reader.Number());
  heartbeat.instruction = static_cast<program::Index>(reader.Number());
  return heartbeat;
}

std::string ToBytes(const Cause& cause) {
  messaging::ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(
      cause.kind == Kind::kInterrupted ? MessageKind::kInterrupted : MessageKind::kFailed));
  writer.Number(static_cast<std::uint64_t>(cause.kind));
  writer.Number(static_cast<std::uint64_t>(cause.status));
  writer.Text(cause.sentence);
  return writer.Take();
}

int FailureStatus(std::uint64_t status) {
  return static_cast<int>(std::clamp<std::uint64_t>(status, 1, 255));
}

Cause ReadCause(messaging::ByteReader& reader, int rank) {
  Cause cause;
  cause.rank = rank;
  cause.kind =
      static_cast<Kind>(std::min(reader.Number(), static_cast<std::uint64_t>(Kind::kInterrupted)));
  cause.status = FailureStatus(reader.Number());
  cause.sentence = Printable(reader.Text());
  return cause;
}

std::string ToBytesEnd(int status) {
  messaging::ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(MessageKind::kEnd));
  writer.Number(static_cast<std::uint64_t>(status));
  return writer.Take();
}

}  // namespace stepcast::runtime::watching
