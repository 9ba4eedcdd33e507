#include "src/memory/deferred_frees.h"

#include <algorithm>
#include <cstdint>

namespace stepcast::memory {

using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;
using program::Program;

// A free waits for the last use on each recorded stream. Uses and free lie in the same step; a use
// of the step before has then ended long ago.
DeferredFrees::DeferredFrees(const Program& program) {
  // Of a buffer with recorded streams, since it was freed last.
  struct BufferState {
    std::uint32_t recorded = kNone;  // the last one
    std::uint32_t use = kNone;
  };
  struct Recorded {
    std::uint16_t stream = 0;
    std::uint32_t before = kNone;  // of the same buffer
  };
  struct LastUse {
    std::uint16_t stream = 0;
    Index instruction = 0;
    std::uint32_t before = kNone;
  };
  std::vector<Index> numbers;  // of buffers with recorded streams
  std::vector<BufferState> states;
  std::vector<Recorded> recorded;
  std::vector<LastUse> last_uses;
  // Streams that are recorded for some buffer: uses on others are never waited for.
  std::vector<std::uint8_t> records(program.streams.size());
  const auto next_record = [&program](auto from) {
    return std::find_if(from, program.step.end(), [](const Instruction& instruction) {
      return instruction.opcode == Opcode::kRecordStream;
    });
  };
  auto at = next_record(program.step.begin());
  if (at == program.step.end()) return;
  numbers.resize(program.buffers.size(), kNone);
  for (; at != program.step.end(); at = next_record(at + 1)) {
    records[at->stream] = 1;
    Index& number = numbers[at->operand];
    if (number != kNone) continue;
    number = static_cast<Index>(states.size());
    states.emplace_back();
  }
  const auto is_recorded = [&recorded](std::uint32_t last, std::uint16_t stream) {
    while (last != kNone && recorded[last].stream != stream) last = recorded[last].before;
    return last != kNone;
  };
  free_.resize(program.step.size());
  number_.resize(program.step.size());
  first_.push_back(0);
  for (Index i = 0; i < program.step.size(); ++i) {
    const Instruction& instruction = program.step[i];
    if (instruction.use_count > 0 && records[instruction.stream] == 0) continue;
    for (Index u = 0; u < instruction.use_count; ++u) {
      const Index number = numbers[program.uses[instruction.first_use + u].buffer];
      if (number == kNone) continue;
      std::uint32_t& last = states[number].use;
      std::uint32_t own = last;
      while (own != kNone && last_uses[own].stream != instruction.stream) {
        own = last_uses[own].before;
      }
      if (own != kNone) {
        last_uses[own].instruction = i;
      } else {
        last_uses.push_back({.stream = instruction.stream, .instruction = i, .before = last});
        last = static_cast<std::uint32_t>(last_uses.size() - 1);
      }
    }
    if (instruction.opcode == Opcode::kRecordStream) {
      std::uint32_t& last = states[numbers[instruction.operand]].recorded;
      recorded.push_back({.stream = instruction.stream, .before = last});
      last = static_cast<std::uint32_t>(recorded.size() - 1);
    } else if (instruction.opcode == Opcode::kRelease) {
      const Index number = numbers[instruction.operand];
      if (number == kNone) continue;
      BufferState& state = states[number];
      for (std::uint32_t own = state.use; own != kNone; own = last_uses[own].before) {
        const LastUse& use = last_uses[own];
        if (!is_recorded(state.recorded, use.stream)) continue;
        std::uint32_t& own_number = number_[use.instruction];
        if (own_number == 0) {
          operations_.push_back(use.instruction);
          own_number = static_cast<std::uint32_t>(operations_.size());
        }
        uses_.push_back(own_number - 1);
      }
      state = {};
      if (uses_.size() == first_.back()) continue;
      free_[i] = static_cast<std::uint32_t>(first_.size());
      first_.push_back(static_cast<std::uint32_t>(uses_.size()));
    }
  }
}

}  // namespace stepcast::memory
