#include "src/forecast/step_counts.h"

namespace stepcast::forecast {

using program::Opcode;

StepCounts::StepCounts(const program::Program& program) {
  kernels.resize(program.kernels.size());
  collectives.resize(program.collectives.size());
  exchanges.resize(program.exchanges.size());
  copies.resize(program.copies.size());
  host_tasks.resize(program.host_tasks.size());
  for (const program::Instruction& instruction : program.step) {
    switch (instruction.opcode) {
      case Opcode::kKernel:
        ++kernels[instruction.operand];
        break;
      case Opcode::kCollective:
        ++collectives[instruction.operand];
        break;
      case Opcode::kExchange:
        ++exchanges[instruction.operand];
        break;
      case Opcode::kCopy:
        ++copies[instruction.operand];
        break;
      case Opcode::kHostTask:
        ++host_tasks[instruction.operand];
        break;
      default:
        break;
    }
  }
}

}  // namespace stepcast::forecast
