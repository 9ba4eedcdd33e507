#include "src/program/instruction.h"

namespace stepcast::program {

void FindWaitTargets(const Program& program, WaitTargets& targets) {
  std::vector<Index> in_prologue(program.events.size(), kNone);
  targets.prologue.assign(program.prologue.size(), {});
  for (Index i = 0; i < program.prologue.size(); ++i) {
    const Instruction& instruction = program.prologue[i];
    if (instruction.opcode == Opcode::kRecordEvent) {
      in_prologue[instruction.operand] = i;
    } else if (instruction.opcode == Opcode::kWaitEvent ||
               instruction.opcode == Opcode::kHostWaitEvent) {
      targets.prologue[i].prologue_record = in_prologue[instruction.operand];
    }
  }

  std::vector<Index> last(program.events.size(), kNone);
  for (Index i = 0; i < program.step.size(); ++i) {
    const Instruction& instruction = program.step[i];
    if (instruction.opcode == Opcode::kRecordEvent) last[instruction.operand] = i;
  }
  std::vector<Index> so_far(program.events.size(), kNone);
  targets.step.assign(program.step.size(), {});
  for (Index i = 0; i < program.step.size(); ++i) {
    const Instruction& instruction = program.step[i];
    const Index event = instruction.operand;
    if (instruction.opcode == Opcode::kRecordEvent) {
      so_far[event] = i;
    } else if (instruction.opcode == Opcode::kWaitEvent ||
               instruction.opcode == Opcode::kHostWaitEvent) {
      WaitTarget& target = targets.step[i];
      if (so_far[event] != kNone) {
        target.record = so_far[event];
      } else {
        target.record = last[event];
        target.step_before = last[event] != kNone;
        target.prologue_record = in_prologue[event];
      }
    }
  }
}

}  // namespace stepcast::program
