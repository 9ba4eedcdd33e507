#include "src/collective/interpreter.h"

#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include "fmt/format.h"

namespace stepcast::collective {
namespace {

// The addresses of a chunk.
template <typename Visit>
void ForEachAddress(const Partition& partition, const Chunk& chunk, const Visit& visit) {
  std::int64_t block = chunk.block;
  for (int i = 0; i < chunk.count; ++i) {
    const std::int64_t offset = partition.Offset(block, chunk.part);
    for (std::int64_t k = 0; k < partition.Size(block, chunk.part); ++k) {
      visit(static_cast<std::size_t>(offset + k));
    }
    block = ((block + chunk.stride) % partition.blocks() + partition.blocks()) % partition.blocks();
  }
}

}  // namespace

Interpretation Interpret(const StepList& list,
                         const std::vector<std::vector<std::int64_t>>& contributions,
                         bool lowest_first) {
  const auto total = static_cast<std::size_t>(list.partition().total().count());
  const auto participants = static_cast<std::size_t>(list.participants());
  Interpretation result;
  result.results.assign(participants, std::vector<std::int64_t>(total));
  result.copies.assign(participants, std::vector<int>(total));
  result.sent.assign(participants, 0);
  result.received.assign(participants, 0);

  std::vector<std::vector<std::int64_t>> data = contributions;
  data.resize(participants, std::vector<std::int64_t>(total));
  std::map<std::pair<int, int>, std::deque<std::vector<std::int64_t>>> messages;
  std::vector<std::int64_t> next(static_cast<std::size_t>(list.workers()));

  const auto advance = [&](int worker) {
    std::int64_t& i = next[static_cast<std::size_t>(worker)];
    if (i == list.StepCount(worker)) return false;
    const Step step = list.At(worker, i);
    const auto participant = static_cast<std::size_t>(list.ParticipantOf(worker));
    if (step.receive_from != kNobody) {
      auto& waiting = messages[{step.receive_from, worker}];
      if (waiting.empty()) return false;
      const std::vector<std::int64_t> message = std::move(waiting.front());
      waiting.pop_front();
      if (static_cast<std::int64_t>(message.size()) != step.bytes) {
        result.fault = fmt::format("worker {} expects {} bytes and receives {}", worker, step.bytes,
                                   message.size());
        return false;
      }
      result.received[participant] += step.bytes;
      std::size_t at = 0;
      ForEachAddress(list.partition(), step.chunk, [&](std::size_t address) {
        std::int64_t& value = data[participant][address];
        value = (step.reduce ? value : 0) + message[at++];
      });
    }
    if (step.copy) {
      ForEachAddress(list.partition(), step.chunk, [&](std::size_t address) {
        result.results[participant][address] = data[participant][address];
        ++result.copies[participant][address];
      });
    }
    if (step.send_to != kNobody) {
      std::vector<std::int64_t> message;
      ForEachAddress(list.partition(), step.chunk,
                     [&](std::size_t address) { message.push_back(data[participant][address]); });
      if (static_cast<std::int64_t>(message.size()) != step.bytes) {
        result.fault =
            fmt::format("worker {} says {} bytes and sends {}", worker, step.bytes, message.size());
        return false;
      }
      result.sent[participant] += step.bytes;
      messages[{worker, step.send_to}].push_back(std::move(message));
    }
    ++i;
    return true;
  };

  for (bool moved = true; moved && result.fault.empty();) {
    moved = false;
    for (int k = 0; k < list.workers(); ++k) {
      const int worker = lowest_first ? k : list.workers() - 1 - k;
      while (advance(worker)) moved = true;
    }
  }
  for (int worker = 0; worker < list.workers() && result.fault.empty(); ++worker) {
    const std::int64_t i = next[static_cast<std::size_t>(worker)];
    if (i == list.StepCount(worker)) continue;
    result.fault = fmt::format("worker {} (participant {}, lane {}) waits in step {} for worker {}",
                               worker, list.ParticipantOf(worker), list.LaneOf(worker), i,
                               list.At(worker, i).receive_from);
  }
  for (const auto& [connection, waiting] : messages) {
    if (waiting.empty() || !result.fault.empty()) continue;
    result.fault = fmt::format("worker {} never receives {} messages of worker {}",
                               connection.second, waiting.size(), connection.first);
  }
  return result;
}

}  // namespace stepcast::collective
