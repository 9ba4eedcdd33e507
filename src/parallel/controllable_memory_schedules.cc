#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/parallel/named_schedules.h"

namespace stepcast::parallel {
namespace {

// Kinds of passes of a stage: those of the block, in a micro-batch's order, and the weight
// gradients of either chunk.
constexpr int kFirstForward = 0, kLastForward = 1, kLastBackward = 2, kFirstBackward = 3;
constexpr int kBlock = 4, kWeights = 4, kKinds = 5;
constexpr int kInterval = 6;  // slots from a block to the next

// Slots of a stage's passes: [kind][micro-batch]. Weight passes are as many as both backwards
// together, oldest first.
using StageSlots = std::array<std::vector<int>, kKinds>;
using Slots = std::vector<StageSlots>;  // [stage]

struct Place {
  int stage = 0, kind = 0, index = 0;
};

// The kind in each slot of a stage, or -1.
std::vector<int> Occupied(const StageSlots& stage) {
  int end = 0;
  for (const std::vector<int>& slots : stage) {
    for (const int slot : slots) end = std::max(end, slot + 1);
  }
  std::vector<int> kinds(static_cast<std::size_t>(end), -1);
  for (int kind = 0; kind < kKinds; ++kind) {
    for (const int slot : stage[static_cast<std::size_t>(kind)]) {
      kinds[static_cast<std::size_t>(slot)] = kind;
    }
  }
  return kinds;
}

// All passes by slot; within a slot by stage, kind and index.
std::vector<Place> InOrder(const Slots& slots) {
  std::vector<std::tuple<int, int, int, int>> keys;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    for (int kind = 0; kind < kKinds; ++kind) {
      const std::vector<int>& own = slots[s][static_cast<std::size_t>(kind)];
      for (std::size_t i = 0; i < own.size(); ++i) {
        keys.emplace_back(own[i], static_cast<int>(s), kind, static_cast<int>(i));
      }
    }
  }
  std::sort(keys.begin(), keys.end());
  std::vector<Place> order;
  for (const auto& [slot, stage, kind, index] : keys) order.push_back({stage, kind, index});
  return order;
}

bool IsBackward(int kind) { return kind == kLastBackward || kind == kFirstBackward; }

// Puts the weight part of each backward into the first free slot after it.
void AddWeights(StageSlots& stage) {
  std::vector<int>& weights = stage[kWeights];
  weights.clear();
  const std::vector<int> kinds = Occupied(stage);
  int waiting = 0;
  for (std::size_t slot = 0; slot < kinds.size(); ++slot) {
    if (IsBackward(kinds[slot])) ++waiting;
    if (kinds[slot] >= 0 || waiting == 0) continue;
    weights.push_back(static_cast<int>(slot));
    --waiting;
  }
  for (auto end = static_cast<int>(kinds.size()); waiting > 0; --waiting) weights.push_back(end++);
}

// The largest number of live chunk passes, from a forward to its weight part.
int MostAlive(const StageSlots& stage) {
  int alive = 0, most = 0;
  for (const int kind : Occupied(stage)) {
    if (kind == kFirstForward || kind == kLastForward) ++alive;
    if (kind == kWeights) --alive;
    most = std::max(most, alive);
  }
  return most;
}

class Builder {
 public:
  explicit Builder(Slots slots) : slots_(std::move(slots)) {}

  // With the weights' parts in their places, passes outside the steady phase move forward. Then,
  // with the weights' parts in any free slots, passes after the last forward move forward.
  Slots Build() {
    for (StageSlots& stage : slots_) AddWeights(stage);
    MoveForward(true);
    Squeeze();
    for (StageSlots& stage : slots_) AddWeights(stage);
    MoveForward(false);
    for (StageSlots& stage : slots_) AddWeights(stage);
    Squeeze();
    for (StageSlots& stage : slots_) AddWeights(stage);
    return std::move(slots_);
  }

 private:
  int& At(int stage, int kind, int index) {
    return slots_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(kind)]
                 [static_cast<std::size_t>(index)];
  }

  // The last slot among the inputs of the pass; -1 if there are none.
  int Needs(const Place& at) {
    int last = -1;
    const int stages = static_cast<int>(slots_.size());
    if (at.index > 0) last = At(at.stage, at.kind, at.index - 1);
    if (at.kind == kWeights) {
      std::vector<int> backwards = slots_[static_cast<std::size_t>(at.stage)][kLastBackward];
      const std::vector<int>& others = slots_[static_cast<std::size_t>(at.stage)][kFirstBackward];
      backwards.insert(backwards.end(), others.begin(), others.end());
      const auto nth = backwards.begin() + at.index;
      std::nth_element(backwards.begin(), nth, backwards.end());
      return std::max(last, *nth);
    }
    // Forwards of first chunks go down the stages, those of second chunks go back up. Gradients do
    // likewise.
    const bool down = at.kind == kFirstForward || at.kind == kLastBackward;
    const int neighbour = at.stage + (down ? -1 : 1);
    if (neighbour >= 0 && neighbour < stages)
      last = std::max(last, At(neighbour, at.kind, at.index));
    if (at.kind > 0) last = std::max(last, At(at.stage, at.kind - 1, at.index));
    return last;
  }

  void MoveForward(bool with_weights) {
    int limit = 0;
    for (const StageSlots& stage : slots_) limit = std::max(limit, MostAlive(stage));
    if (!with_weights) {
      for (StageSlots& stage : slots_) stage[kWeights].clear();
    }
    std::vector<std::vector<int>> occupied;
    for (const StageSlots& stage : slots_) {
      occupied.emplace_back(Occupied(stage).size() + 1, -1);
    }
    const int last = static_cast<int>(slots_[0][kFirstForward].size()) - 1;
    enum class Phase { kWarmUp, kSteady, kDrain } phase = Phase::kWarmUp;
    for (const Place& at : InOrder(slots_)) {
      std::vector<int>& own = occupied[static_cast<std::size_t>(at.stage)];
      int& slot = At(at.stage, at.kind, at.index);
      if (phase == Phase::kWarmUp && at.kind == kFirstBackward && at.stage == 0) {
        phase = Phase::kSteady;
      }
      const bool stays = phase == Phase::kSteady || (phase == Phase::kWarmUp && !with_weights);
      if (phase == Phase::kSteady && at.kind == kFirstForward && at.index == last) {
        phase = Phase::kDrain;
      }
      if (!stays) {
        const int now = slot;
        for (int earlier = Needs(at) + 1; earlier < now; ++earlier) {
          if (own[static_cast<std::size_t>(earlier)] >= 0) continue;
          slot = earlier;
          if (Fits(at.stage, with_weights, limit)) break;
          slot = now;
        }
      }
      own[static_cast<std::size_t>(slot)] = at.kind;
    }
  }

  bool Fits(int stage, bool with_weights, int limit) {
    StageSlots& own = slots_[static_cast<std::size_t>(stage)];
    if (with_weights) return MostAlive(own) <= limit;
    AddWeights(own);
    const bool fits = MostAlive(own) <= limit;
    own[kWeights].clear();
    return fits;
  }

  // Keeps the order: each pass takes the first slot after its inputs and after the pass before it.
  void Squeeze() {
    std::vector<int> next(slots_.size(), 0);
    for (const Place& at : InOrder(slots_)) {
      int& free = next[static_cast<std::size_t>(at.stage)];
      // The weights' parts only need to keep their turn.
      if (at.kind != kWeights) free = std::max(free, Needs(at) + 1);
      At(at.stage, at.kind, at.index) = free++;
    }
  }

  Slots slots_;
};

// `block`: the slots of a micro-batch's four passes, by stage.
Slots RepeatedSlots(const std::vector<std::array<int, kBlock>>& block, int micro_batches) {
  Slots slots;
  for (const std::array<int, kBlock>& offsets : block) {
    StageSlots& stage = slots.emplace_back();
    for (std::size_t kind = 0; kind < kBlock; ++kind) {
      for (int i = 0; i < micro_batches; ++i) stage[kind].push_back(offsets[kind] + kInterval * i);
    }
  }
  return Builder(std::move(slots)).Build();
}

PipelineSchedule ScheduleOf(const Slots& slots) {
  const auto micro_batches = static_cast<int>(slots.front()[kFirstForward].size());
  PipelineSchedule schedule{.micro_batches = micro_batches, .stages = {}};
  const int stages = static_cast<int>(slots.size());
  for (int s = 0; s < stages; ++s) {
    const int first = s, second = 2 * stages - 1 - s;
    PipelineSchedule::Stage& stage = schedule.stages.emplace_back();
    stage.chunks = {first, second};
    std::array<int, kBlock> done{};
    std::array<int, 2> weights{};  // of the second chunk, of the first
    for (const int kind : Occupied(slots[static_cast<std::size_t>(s)])) {
      if (kind < 0) continue;
      if (kind == kWeights) {
        // If both chunks wait, the second chunk's passes go first.
        const int of = weights[0] < done[kLastBackward] ? 0 : 1;
        stage.entries.push_back(Action{Task::kBackwardWeight,
                                       weights[static_cast<std::size_t>(of)]++,
                                       of == 0 ? second : first});
        continue;
      }
      const bool forward = kind == kFirstForward || kind == kLastForward;
      const bool of_first = kind == kFirstForward || kind == kFirstBackward;
      stage.entries.push_back(Action{forward ? Task::kForward : Task::kBackwardInput,
                                     done[static_cast<std::size_t>(kind)]++,
                                     of_first ? first : second});
    }
  }
  return schedule;
}

}  // namespace

PipelineSchedule VHalf(int stages, int micro_batches) {
  STEPCAST_CHECK(stages >= 1 && micro_batches >= 1,
                 "a schedule must have at least one stage and one micro-batch");
  std::vector<std::array<int, kBlock>> block;
  const int gap = stages % 2 == 0 ? 3 : 0;  // else two passes would have one slot
  for (int s = 0; s < stages; ++s) {
    block.push_back(
        {2 * s, 3 * stages - s - 2, 3 * stages + gap + 2 * s - 1, 6 * stages + gap - s - 2});
  }
  return ScheduleOf(RepeatedSlots(block, micro_batches));
}

PipelineSchedule VMin(int stages, int micro_batches) {
  STEPCAST_CHECK(stages >= 1 && micro_batches >= 1,
                 "a schedule must have at least one stage and one micro-batch");
  std::vector<std::array<int, kBlock>> block;
  const int gap = stages % 3 == 0 ? 2 : 0;  // likewise
  for (int s = 0; s < stages; ++s) {
    block.push_back({s, 2 * stages - s - 1, 2 * stages + gap + s, 4 * stages + gap - s - 1});
  }
  return ScheduleOf(RepeatedSlots(block, micro_batches));
}

}  // namespace stepcast::parallel
