#include "src/forecast/memory_timeline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/engine/caching_allocator.h"
#include "src/engine/memory_ledger.h"

namespace stepcast::forecast {
namespace {

using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;
using program::Program;
using program::Timeline;

// For each release in the step of a buffer with recorded streams: the last use on each of them.
// Uses and release lie in the same step; a use of the step before has then ended long ago.
std::unordered_map<Index, std::vector<Index>> DelayedReleases(const Program& program) {
  struct BufferState {
    std::vector<std::uint16_t> recorded;                     // streams
    std::vector<std::pair<std::uint16_t, Index>> last_uses;  // by stream
  };
  std::unordered_map<Index, BufferState> states;
  for (const Instruction& instruction : program.step) {
    if (instruction.opcode == Opcode::kRecordStream) {
      states[instruction.operand].recorded.push_back(instruction.stream);
    }
  }
  std::unordered_map<Index, std::vector<Index>> releases;
  if (states.empty()) return releases;
  for (auto& [buffer, state] : states) state.recorded.clear();
  for (Index i = 0; i < program.step.size(); ++i) {
    const Instruction& instruction = program.step[i];
    for (Index u = 0; u < instruction.use_count; ++u) {
      const auto found = states.find(program.uses[instruction.first_use + u].buffer);
      if (found == states.end()) continue;
      auto& uses = found->second.last_uses;
      const auto same = std::find_if(uses.begin(), uses.end(), [&](const auto& use) {
        return use.first == instruction.stream;
      });
      if (same == uses.end()) {
        uses.emplace_back(instruction.stream, i);
      } else {
        same->second = i;
      }
    }
    if (instruction.opcode == Opcode::kRecordStream) {
      states[instruction.operand].recorded.push_back(instruction.stream);
    } else if (instruction.opcode == Opcode::kRelease) {
      const auto found = states.find(instruction.operand);
      if (found == states.end()) continue;
      BufferState& state = found->second;
      for (const auto& [stream, use] : state.last_uses) {
        if (std::find(state.recorded.begin(), state.recorded.end(), stream) !=
            state.recorded.end()) {
          releases[i].push_back(use);
        }
      }
      state = {};
    }
  }
  return releases;
}

// What is handed out, and the moment when it was most.
class Holdings {
 public:
  using Block = engine::CachingAllocator::Block;

  Holdings(const Program& program, Bytes capacity)
      : program_(program),
        ledger_(program::kCategories),
        allocator_(static_cast<int>(program.streams.size()), {.capacity = capacity}),
        blocks_(program.buffers.size()) {}

  void Allocate(Index index, std::uint16_t stream) {
    const program::Buffer& buffer = program_.buffers[index];
    const Bytes peak = ledger_.peak();
    padding_ += buffer.padding;
    ledger_.Allocate(static_cast<int>(buffer.category), buffer.size);
    if (ledger_.peak() > peak) padding_at_peak_ = padding_;
    blocks_[index] = allocator_.Allocate(stream, buffer.size);
    if (!blocks_[index]) fits_ = false;
  }

  // The block that a buffer has now: a later allocation of the same buffer gets another, while a
  // delayed release may still hold this one.
  std::optional<Block> BlockOf(Index index) const { return blocks_[index]; }

  void Release(Index index, std::optional<Block> block) {
    const program::Buffer& buffer = program_.buffers[index];
    padding_ -= buffer.padding;
    ledger_.Release(static_cast<int>(buffer.category), buffer.size);
    if (block) allocator_.Free(*block);
  }

  MemoryPeak peak() const {
    MemoryPeak peak{.by_category = {},
                    .total = ledger_.peak(),
                    .padding = padding_at_peak_,
                    .reserved = allocator_.peak_reserved(),
                    .fits = fits_,
                    .flushes = allocator_.flushes()};
    std::copy(ledger_.at_peak().begin(), ledger_.at_peak().end(), peak.by_category.begin());
    return peak;
  }

 private:
  const Program& program_;
  engine::MemoryLedger ledger_;
  engine::CachingAllocator allocator_;
  std::vector<std::optional<Block>> blocks_;  // by buffer
  Bytes padding_, padding_at_peak_;
  bool fits_ = true;
};

MemoryPeak Replay(const Program& program, const Timeline& timeline, Bytes capacity) {
  Holdings holdings(program, capacity);
  for (const Instruction& instruction : program.prologue) {
    if (instruction.opcode == Opcode::kAllocate)
      holdings.Allocate(instruction.operand, instruction.stream);
    if (instruction.opcode == Opcode::kRelease) {
      holdings.Release(instruction.operand, holdings.BlockOf(instruction.operand));
    }
  }

  const auto delayed = DelayedReleases(program);
  // When each operation of each step ended, where a delayed release asks for it.
  std::unordered_map<Index, std::vector<Time>> ends;
  for (const auto& [release, uses] : delayed) {
    for (const Index use : uses) ends[use].resize(timeline.step_ends.size());
  }
  if (!ends.empty()) {
    for (const program::OperationRecord& record : timeline.operations) {
      const auto found = ends.find(record.instruction);
      if (found != ends.end()) found->second[record.step] = record.end;
    }
  }

  // Until when, buffer, its block.
  using Pending = std::tuple<Time, Index, std::optional<Holdings::Block>>;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending;
  for (const program::MemoryRecord& record : timeline.memory) {
    const Instruction& instruction = program.step[record.instruction];
    if (instruction.opcode == Opcode::kAllocate) {
      while (!pending.empty() && std::get<Time>(pending.top()) <= record.time) {
        const auto& [until, buffer, block] = pending.top();
        holdings.Release(buffer, block);
        pending.pop();
      }
      holdings.Allocate(instruction.operand, instruction.stream);
    } else if (instruction.opcode == Opcode::kRelease) {
      Time until = record.time;
      if (const auto found = delayed.find(record.instruction); found != delayed.end()) {
        for (const Index use : found->second) until = std::max(until, ends[use][record.step]);
      }
      if (until > record.time) {
        pending.emplace(until, instruction.operand, holdings.BlockOf(instruction.operand));
      } else {
        holdings.Release(instruction.operand, holdings.BlockOf(instruction.operand));
      }
    }
  }
  return holdings.peak();
}

}  // namespace

MemoryPeak PeakOf(const Program& program, const Timeline& timeline, Bytes capacity) {
  const Bytes unlimited(std::numeric_limits<std::int64_t>::max() / 2);
  MemoryPeak peak = Replay(program, timeline, unlimited);
  if (peak.reserved <= capacity) return peak;
  const MemoryPeak limited = Replay(program, timeline, capacity);
  if (limited.fits) return limited;
  peak.fits = false;
  return peak;
}

}  // namespace stepcast::forecast
