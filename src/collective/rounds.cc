#include "src/collective/rounds.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

namespace stepcast::collective {
namespace {

class Rounds {
 public:
  explicit Rounds(const StepList& list)
      : list_(list),
        next_(static_cast<std::size_t>(list.workers())),
        round_(static_cast<std::size_t>(list.workers())) {}

  // Call this function once.
  std::vector<SentChunk> Run() {
    const int workers = list_.WorkerOf(0, list_.participants(), 0);  // of channel 0
    for (bool moved = true; moved;) {
      moved = false;
      for (int worker = 0; worker < workers; ++worker) {
        while (Advance(worker)) moved = true;
      }
    }
    std::stable_sort(sent_.begin(), sent_.end(), [](const SentChunk& a, const SentChunk& b) {
      return std::tie(a.round, a.from) < std::tie(b.round, b.from);
    });
    return std::move(sent_);
  }

 private:
  // Executes a step of the worker. Returns false if it is done or waits.
  bool Advance(int worker) {
    std::int64_t& next = next_[static_cast<std::size_t>(worker)];
    int& round = round_[static_cast<std::size_t>(worker)];
    if (next == list_.StepsPerLoop(worker)) return false;
    const Step step = list_.At(worker, next);
    if (step.receive_from != kNobody) {
      std::queue<std::size_t>& arriving = messages_[{step.receive_from, worker}];
      if (arriving.empty()) return false;
      SentChunk& message = sent_[arriving.front()];
      arriving.pop();
      message.reduce = step.reduce;
      round = std::max(round, message.round + 1);
    }
    if (step.send_to != kNobody) {
      messages_[{worker, step.send_to}].push(sent_.size());
      sent_.push_back({.round = round,
                       .from = list_.ParticipantOf(worker),
                       .to = list_.ParticipantOf(step.send_to),
                       .chunk = step.chunk});
      ++round;
    }
    ++next;
    return true;
  }

  const StepList& list_;
  std::vector<std::int64_t> next_;  // [worker]
  std::vector<int> round_;          // [worker]: the first in which it can send
  std::map<std::pair<int, int>, std::queue<std::size_t>> messages_;  // by sender and receiver
  std::vector<SentChunk> sent_;
};

}  // namespace

std::vector<SentChunk> MessagesByRound(const StepList& list) { return Rounds(list).Run(); }

}  // namespace stepcast::collective
