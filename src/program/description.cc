#include "src/program/description.h"

#include "fmt/format.h"
#include "src/base/collective_kind.h"

namespace stepcast::program {

bool RunsOnStream(Opcode opcode) {
  switch (opcode) {
    case Opcode::kKernel:
    case Opcode::kCopy:
    case Opcode::kCollective:
    case Opcode::kRecordEvent:
    case Opcode::kWaitEvent:
      return true;
    case Opcode::kHostTask:
    case Opcode::kHostWaitEvent:
    case Opcode::kAllocate:
    case Opcode::kRelease:
    case Opcode::kRecordStream:
      return false;
  }
  return false;
}

std::string OperandName(const Program& program, const Instruction& instruction) {
  const Index operand = instruction.operand;
  switch (instruction.opcode) {
    case Opcode::kKernel:
      return program.kernels[operand].name;
    case Opcode::kCopy:
      return Name(program.copies[operand].direction);
    case Opcode::kCollective:
      return std::string(Name(program.collectives[operand].kind));
    case Opcode::kHostTask:
      return program.host_tasks[operand].name;
    case Opcode::kRecordEvent:
    case Opcode::kWaitEvent:
    case Opcode::kHostWaitEvent:
      return program.NameOf(program.events[operand]);
    case Opcode::kAllocate:
    case Opcode::kRelease:
    case Opcode::kRecordStream:
      return program.NameOf(program.buffers[operand]);
  }
  return "";
}

std::string Describe(const Program& program, const Instruction& instruction) {
  std::string text;
  switch (instruction.opcode) {
    case Opcode::kCollective: {
      const Collective& collective = program.collectives[instruction.operand];
      text = fmt::format("{} on communicator '{}'", Name(collective.kind),
                         program.communicators[collective.communicator].name);
      break;
    }
    case Opcode::kCopy:
      text = fmt::format("{} copy", Name(program.copies[instruction.operand].direction));
      break;
    default:
      text = fmt::format("{} '{}'", Name(instruction.opcode), OperandName(program, instruction));
  }
  if (instruction.label != kNone) {
    text += fmt::format(" of '{}'", program.labels[instruction.label]);
  }
  if (RunsOnStream(instruction.opcode) || instruction.opcode == Opcode::kAllocate ||
      instruction.opcode == Opcode::kRecordStream) {
    text += fmt::format(" on stream '{}'", program.streams[instruction.stream].name);
  }
  return text;
}

}  // namespace stepcast::program
