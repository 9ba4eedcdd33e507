#include "src/memory/deferred_frees.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace stepcast::memory {

using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;
using program::Program;

void HostOrder::Run(const Program& program, std::span<const Instruction> instructions) {
  for (const Instruction& instruction : instructions) {
    if (instruction.opcode == Opcode::kAllocate) {
      allocated_ += program.buffers[instruction.operand].size;
      peak_ = std::max(peak_, allocated_);
    } else if (instruction.opcode == Opcode::kRelease) {
      allocated_ -= program.buffers[instruction.operand].size;
    }
  }
}

Bytes PeakInHostOrder(const Program& program) {
  HostOrder order;
  order.Run(program, program.prologue);
  order.Run(program, program.step);
  order.Run(program, program.step);  // what one step leaves to the next
  return order.peak();
}

Program StoppedProgram(const Program& program, std::span<const DriverCallsAt> calls, bool waits) {
  Program stopped = program;
  stopped.data_flow = {};
  const auto first_event = static_cast<Index>(stopped.events.size());
  const Index name = stopped.texts.Add("before the allocator's cudaFree");
  for (std::size_t stream = 0; stream < stopped.streams.size(); ++stream) {
    stopped.events.push_back({.name = {.first = name}});
  }
  std::vector<Instruction> step;
  step.reserve(program.step.size() + calls.size() * (2 * stopped.streams.size() + 1));
  auto next = calls.begin();
  for (Index i = 0; i < program.step.size(); ++i) {
    const Instruction& own = program.step[i];
    if (next != calls.end() && next->instruction == i) {
      const auto add = [&](Opcode opcode, std::size_t stream, std::size_t operand) {
        step.push_back({.opcode = opcode,
                        .phase = own.phase,
                        .stream = static_cast<std::uint16_t>(stream),
                        .operand = static_cast<Index>(operand),
                        .micro_batch = own.micro_batch});
      };
      for (const Opcode opcode : {Opcode::kRecordEvent, Opcode::kHostWaitEvent}) {
        if (next->calls.flushes == 0 || !waits) break;
        for (std::size_t s = 0; s < stopped.streams.size(); ++s) {
          add(opcode, opcode == Opcode::kRecordEvent ? s : 0, first_event + s);
        }
      }
      add(Opcode::kHostTask, 0, stopped.host_tasks.size());
      stopped.host_tasks.push_back({"cudaFree and cudaMalloc", TimeOf(next->calls)});
      ++next;
    }
    step.push_back(own);
  }
  stopped.step = std::move(step);
  return stopped;
}

namespace {

// Buffers with recorded streams, and the last use on each stream since the buffer was last freed.
class RecordedBuffers {
 public:
  explicit RecordedBuffers(const Program& program)
      : program_(program), records_(program.streams.size()) {
    auto at = NextRecord(program.step.begin());
    if (at == program.step.end()) return;
    numbers_.resize(program.buffers.size(), kNone);
    for (; at != program.step.end(); at = NextRecord(at + 1)) {
      records_[at->stream] = 1;
      Index& number = numbers_[at->operand];
      if (number != kNone) continue;
      number = static_cast<Index>(states_.size());
      states_.emplace_back();
    }
  }

  bool empty() const { return states_.empty(); }

  // Uses on streams that no buffer records are never waited for.
  bool MayBeAwaited(const Instruction& instruction) const {
    return instruction.use_count == 0 || records_[instruction.stream] != 0;
  }

  void AddUses(Index i, const Instruction& instruction) {
    for (Index u = 0; u < instruction.use_count; ++u) {
      const Index number = numbers_[program_.uses[instruction.first_use + u].buffer];
      if (number == kNone) continue;
      std::uint32_t& last = states_[number].use;
      std::uint32_t own = last;
      while (own != kNone && uses_[own].stream != instruction.stream) own = uses_[own].before;
      if (own != kNone) {
        uses_[own].instruction = i;
      } else {
        uses_.push_back({.stream = instruction.stream, .instruction = i, .before = last});
        last = static_cast<std::uint32_t>(uses_.size() - 1);
      }
    }
  }

  void AddRecord(const Instruction& instruction) {
    std::uint32_t& last = states_[numbers_[instruction.operand]].recorded;
    recorded_.push_back({.stream = instruction.stream, .before = last});
    last = static_cast<std::uint32_t>(recorded_.size() - 1);
  }

  // Calls `awaits` with each instruction that the free of a buffer waits for.
  template <typename Awaits>
  void Free(Index buffer, Awaits awaits) {
    const Index number = numbers_[buffer];
    if (number == kNone) return;
    BufferState& state = states_[number];
    for (std::uint32_t own = state.use; own != kNone; own = uses_[own].before) {
      if (IsRecorded(state.recorded, uses_[own].stream)) awaits(uses_[own].instruction);
    }
    state = {};
  }

 private:
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

  template <typename Iterator>
  Iterator NextRecord(Iterator from) const {
    return std::find_if(from, program_.step.end(), [](const Instruction& instruction) {
      return instruction.opcode == Opcode::kRecordStream;
    });
  }
  bool IsRecorded(std::uint32_t last, std::uint16_t stream) const {
    while (last != kNone && recorded_[last].stream != stream) last = recorded_[last].before;
    return last != kNone;
  }

  const Program& program_;
  std::vector<std::uint8_t> records_;  // by stream: it is recorded for some buffer
  std::vector<Index> numbers_;         // by buffer: among those with recorded streams
  std::vector<BufferState> states_;
  std::vector<Recorded> recorded_;
  std::vector<LastUse> uses_;
};

}  // namespace

// A free waits for the last use on each recorded stream. Uses and free are in the same step; a use
// in the previous step has ended long before.
DeferredFrees::DeferredFrees(const Program& program) {
  RecordedBuffers buffers(program);
  if (buffers.empty()) return;
  free_.resize(program.step.size());
  number_.resize(program.step.size());
  first_.push_back(0);
  for (Index i = 0; i < program.step.size(); ++i) {
    const Instruction& instruction = program.step[i];
    if (!buffers.MayBeAwaited(instruction)) continue;
    buffers.AddUses(i, instruction);
    if (instruction.opcode == Opcode::kRecordStream) {
      buffers.AddRecord(instruction);
    } else if (instruction.opcode == Opcode::kRelease) {
      buffers.Free(instruction.operand, [this](Index use) {
        std::uint32_t& number = number_[use];
        if (number == 0) {
          operations_.push_back(use);
          number = static_cast<std::uint32_t>(operations_.size());
        }
        uses_.push_back(number - 1);
      });
      if (uses_.size() == first_.back()) continue;
      free_[i] = static_cast<std::uint32_t>(first_.size());
      first_.push_back(static_cast<std::uint32_t>(uses_.size()));
    }
  }
}

}  // namespace stepcast::memory
