#pragma once

#include <cstdint>
#include <string>

#include "src/messaging/byte_stream.h"
#include "src/program/program.h"
#include "src/runtime/watch.h"
#include "src/runtime/watch_cause.h"

// What the watches of ranks in processes of their own tell each other. What is read came from
// outside: kinds and statuses are brought into their ranges, texts made printable.
namespace stepcast::runtime::watching {

enum class MessageKind : std::uint8_t { kHeartbeat, kFailed, kInterrupted, kEnd, kBye };

// How far a rank is.
struct Heartbeat {
  Stage stage = Stage::kSettingUp;
  std::uint64_t operations = 0;
  std::uint32_t step = 0;
  program::Index instruction = program::kNone;
};

// A message that says no more than its kind.
std::string ToBytes(MessageKind kind);
std::string ToBytes(const Heartbeat& heartbeat);
Heartbeat ReadHeartbeat(messaging::ByteReader& reader);
std::string ToBytes(const Cause& cause);
// A run that is ended by another rank has failed, whatever status that rank sends.
int FailureStatus(std::uint64_t status);
Cause ReadCause(messaging::ByteReader& reader, int rank);
std::string ToBytesEnd(int status);

}  // namespace stepcast::runtime::watching
