#include "src/forecast/step_counts.h"

namespace stepcast::forecast {

using program::Opcode;

StepCounts::StepCounts(const program::Program& program, const program::LongerStep& longer) {
  kernels.resize(program.kernels.size());
  collectives.resize(program.collectives.size());
  exchanges.resize(program.exchanges.size());
  copies.resize(program.copies.size());
  host_tasks.resize(program.host_tasks.size());
  for (program::Index i = 0; i < program.step.size(); ++i) {
    const program::Instruction& instruction = program.step[i];
    const auto times = static_cast<std::uint32_t>(longer.Times(i));
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
