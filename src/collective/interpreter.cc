#include "src/collective/interpreter.h"

#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include "fmt/format.h"

namespace stepcast::collective {
namespace {

// Calls `visit` with every address of a chunk.
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

// Executes a list's steps, worker by worker, on the participants' data.
class Interpreter {
 public:
  Interpreter(const StepList& list, const std::vector<std::vector<std::int64_t>>& contributions)
      : list_(list), data_(contributions), next_(static_cast<std::size_t>(list.workers())) {
    const auto total = static_cast<std::size_t>(list.partition().total().count());
    const auto participants = static_cast<std::size_t>(list.participants());
    data_.resize(participants, std::vector<std::int64_t>(total));
    result_.results.assign(participants, std::vector<std::int64_t>(total));
    result_.copies.assign(participants, std::vector<int>(total));
    result_.sent.assign(participants, 0);
    result_.received.assign(participants, 0);
  }

  // To be called once.
  Interpretation Run(bool lowest_first) {
    for (bool moved = true; moved && result_.fault.empty();) {
      moved = false;
      for (int k = 0; k < list_.workers(); ++k) {
        const int worker = lowest_first ? k : list_.workers() - 1 - k;
        while (Advance(worker)) moved = true;
      }
    }
    FindWaiting();
    FindUnreceived();
    return std::move(result_);
  }

 private:
  using Message = std::vector<std::int64_t>;

  // Executes steps of the worker. Returns false if it is done or blocked.
  bool Advance(int worker) {
    std::int64_t& i = next_[static_cast<std::size_t>(worker)];
    if (i == list_.StepCount(worker)) return false;
    const Step step = list_.At(worker, i);
    if (step.receive_from != kNobody && !Receive(worker, step)) return false;
    if (step.copy) CopyToResult(worker, step);
    if (step.send_to != kNobody && !Send(worker, step)) return false;
    ++i;
    return true;
  }

  bool Receive(int worker, const Step& step) {
    const auto participant = static_cast<std::size_t>(list_.ParticipantOf(worker));
    auto& waiting = messages_[{step.receive_from, worker}];
    if (waiting.empty()) return false;
    const Message message = std::move(waiting.front());
    waiting.pop_front();
    if (static_cast<std::int64_t>(message.size()) != step.bytes) {
      result_.fault = fmt::format("worker {} expects {} bytes and receives {}", worker, step.bytes,
                                  message.size());
      return false;
    }
    result_.received[participant] += step.bytes;
    std::size_t at = 0;
    ForEachAddress(list_.partition(), step.chunk, [&](std::size_t address) {
      std::int64_t& value = data_[participant][address];
      value = (step.reduce ? value : 0) + message[at++];
    });
    return true;
  }

  void CopyToResult(int worker, const Step& step) {
    const auto participant = static_cast<std::size_t>(list_.ParticipantOf(worker));
    ForEachAddress(list_.partition(), step.chunk, [&](std::size_t address) {
      result_.results[participant][address] = data_[participant][address];
      ++result_.copies[participant][address];
    });
  }

  bool Send(int worker, const Step& step) {
    const auto participant = static_cast<std::size_t>(list_.ParticipantOf(worker));
    Message message;
    ForEachAddress(list_.partition(), step.chunk,
                   [&](std::size_t address) { message.push_back(data_[participant][address]); });
    if (static_cast<std::int64_t>(message.size()) != step.bytes) {
      result_.fault = fmt::format("worker {} announces {} bytes but sends {}", worker, step.bytes,
                                  message.size());
      return false;
    }
    result_.sent[participant] += step.bytes;
    messages_[{worker, step.send_to}].push_back(std::move(message));
    return true;
  }

  void FindWaiting() {
    for (int worker = 0; worker < list_.workers() && result_.fault.empty(); ++worker) {
      const std::int64_t i = next_[static_cast<std::size_t>(worker)];
      if (i == list_.StepCount(worker)) continue;
      result_.fault = fmt::format(
          "worker {} (participant {}, lane {}) waits in step {} for worker {}", worker,
          list_.ParticipantOf(worker), list_.LaneOf(worker), i, list_.At(worker, i).receive_from);
    }
  }

  void FindUnreceived() {
    for (const auto& [connection, waiting] : messages_) {
      if (waiting.empty() || !result_.fault.empty()) continue;
      result_.fault = fmt::format("worker {} never receives {} messages of worker {}",
                                  connection.second, waiting.size(), connection.first);
    }
  }

  const StepList& list_;
  std::vector<std::vector<std::int64_t>> data_;                  // by participant
  std::vector<std::int64_t> next_;                               // by worker: its next step
  std::map<std::pair<int, int>, std::deque<Message>> messages_;  // by sender and receiver
  Interpretation result_;
};

}  // namespace

Interpretation Interpret(const StepList& list,
                         const std::vector<std::vector<std::int64_t>>& contributions,
                         bool lowest_first) {
  return Interpreter(list, contributions).Run(lowest_first);
}

}  // namespace stepcast::collective
