#include "src/memory/stopped_program.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace stepcast::memory {

using program::Index;
using program::Instruction;
using program::Opcode;

program::Program StoppedProgram(const program::Program& program,
                                std::span<const DriverCallsAt> calls, bool waits) {
  program::Program stopped = program;
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

}  // namespace stepcast::memory
