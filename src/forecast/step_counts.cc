#include "src/forecast/step_counts.h"

namespace stepcast::forecast {

using program::Opcode;

StepCounts::StepCounts(const program::Program& program, const More& more) {
  kernels.resize(program.kernels.size());
  collectives.resize(program.collectives.size());
  exchanges.resize(program.exchanges.size());
  copies.resize(program.copies.size());
  host_tasks.resize(program.host_tasks.size());
  const auto times_more = static_cast<std::uint32_t>(more.times);
  for (const program::Instruction& instruction : program.step) {
    const bool again = instruction.micro_batch >= more.first && instruction.micro_batch < more.end;
    const std::uint32_t times = again ? 1 + times_more : 1;
    switch (instruction.opcode) {
      case Opcode::kKernel:
        kernels[instruction.operand] += times;
        break;
      case Opcode::kCollective:
        collectives[instruction.operand] += times;
        break;
      case Opcode::kExchange:
        exchanges[instruction.operand] += times;
        break;
      case Opcode::kCopy:
        copies[instruction.operand] += times;
        break;
      case Opcode::kHostTask:
        host_tasks[instruction.operand] += times;
        break;
      default:
        break;
    }
  }
}

}  // namespace stepcast::forecast
