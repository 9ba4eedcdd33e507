#include "src/runtime/collective_starts.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/program/description.h"

namespace stepcast::runtime {
namespace {

// Starts in host order, by communicator. Messages are keyed by communicator, sender and receiver.
using Starts = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

// A key that is equal on all members of the communicator's group, and on no other ranks.
std::string Key(const program::Program& program, program::Index communicator) {
  const program::Communicator& one = program.communicators[communicator];
  return fmt::format("{}:{}", one.name, fmt::join(program.groups[one.group].ranks, ","));
}

void AppendNumber(std::string& bytes, std::int64_t number) {
  char raw[sizeof(number)];
  std::memcpy(raw, &number, sizeof(number));
  bytes.append(raw, sizeof(number));
}

std::string Encode(const Starts& starts) {
  std::string bytes;
  for (const auto& [key, times] : starts) {
    AppendNumber(bytes, static_cast<std::int64_t>(key.size()));
    bytes += key;
    AppendNumber(bytes, static_cast<std::int64_t>(times.size()));
    for (const std::int64_t time : times) AppendNumber(bytes, time);
  }
  return bytes;
}

std::int64_t TakeNumber(std::string_view& bytes) {
  std::int64_t number = 0;
  if (bytes.size() < sizeof(number)) {
    bytes = {};
    return 0;
  }
  std::memcpy(&number, bytes.data(), sizeof(number));
  bytes.remove_prefix(sizeof(number));
  return number;
}

// Keeps the later of the stored and the received start.
void MergeLatest(std::string_view bytes, Starts& starts) {
  while (!bytes.empty()) {
    const auto length = std::min(static_cast<std::size_t>(TakeNumber(bytes)), bytes.size());
    const std::string key(bytes.substr(0, length));
    bytes.remove_prefix(length);
    const auto count =
        std::min(static_cast<std::size_t>(TakeNumber(bytes)), bytes.size() / sizeof(std::int64_t));
    std::vector<std::int64_t>& times = starts[key];
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t time = TakeNumber(bytes);
      if (i < times.size()) {
        times[i] = std::max(times[i], time);
      } else {
        times.push_back(time);
      }
    }
  }
}

}  // namespace

Attempt<void> AgreeOnCollectiveStarts(const program::Program& program, Job& job,
                                      std::span<program::OperationRecord> records) {
  if (job.place().ranks == 1) return {};
  std::vector<std::pair<program::Index, program::OperationRecord*>> collectives;
  for (program::OperationRecord& record : records) {
    const program::Index communicator =
        program::CommunicatorOf(program, program.step[record.instruction]);
    if (communicator != program::kNone) collectives.emplace_back(communicator, &record);
  }
  std::sort(collectives.begin(), collectives.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->step, a.second->instruction) <
           std::tie(b.first, b.second->step, b.second->instruction);
  });
  std::vector<std::string> keys;
  for (program::Index c = 0; c < program.communicators.size(); ++c) {
    keys.push_back(Key(program, c));
  }
  // The keys that a record shares with records of other ranks: the collective of a communicator, or
  // the messages of an exchange.
  const auto keys_of = [&](program::Index communicator, const program::OperationRecord& record) {
    const program::Instruction& instruction = program.step[record.instruction];
    if (instruction.opcode == program::Opcode::kCollective) {
      return std::vector<std::string>{keys[communicator]};
    }
    const program::Exchange& exchange = program.exchanges[instruction.operand];
    const program::ProcessGroup& group = program.groups[program.communicators[communicator].group];
    const int position = group.PositionOf(job.place().rank);
    std::vector<std::string> messages;
    for (const program::Message& message : exchange.messages) {
      const int peer =
          exchange.PeerPosition(message, position, static_cast<int>(group.ranks.size()));
      const bool sends = message.direction == program::MessageDirection::kSend;
      messages.push_back(fmt::format("{}:{}>{}", keys[communicator], sends ? position : peer,
                                     sends ? peer : position));
    }
    return messages;
  };
  Starts own;
  for (const auto& [communicator, record] : collectives) {
    for (const std::string& key : keys_of(communicator, *record)) {
      own[key].push_back(record->start.picoseconds());
    }
  }
  const Attempt<std::vector<std::string>> all = job.Gather(Encode(own));
  if (!all) return tl::unexpected(all.error());
  Starts merged;
  for (const std::string& bytes : *all) MergeLatest(bytes, merged);
  const Attempt<std::string> told = job.Broadcast(Encode(merged));
  if (!told) return tl::unexpected(told.error());
  Starts latest;
  MergeLatest(*told, latest);

  std::map<std::string, std::size_t> next;
  for (const auto& [communicator, record] : collectives) {
    for (const std::string& key : keys_of(communicator, *record)) {
      const std::vector<std::int64_t>& times = latest[key];
      const std::size_t at = next[key]++;
      if (at >= times.size()) continue;
      record->start = std::clamp(Time::FromPicoseconds(times[at]), record->start, record->end);
    }
  }
  return {};
}

}  // namespace stepcast::runtime
