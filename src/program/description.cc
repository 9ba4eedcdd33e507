#include "src/program/description.h"

#include "fmt/format.h"
#include "src/base/collective_kind.h"

namespace stepcast::program {

Index CommunicatorOf(const Program& program, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kCollective:
      return program.collectives[instruction.operand].communicator;
    case Opcode::kExchange:
      return program.exchanges[instruction.operand].communicator;
    default:
      return kNone;
  }
}

std::string MessageText(const Exchange& exchange, const Message& message) {
  const char* const from_or_to = message.direction == MessageDirection::kSend ? "to" : "from";
  return exchange.peers == PeerNaming::kPosition
             ? fmt::format("{} {} position {}", Name(message.direction), from_or_to, message.peer)
             : fmt::format("{} {} distance {:+}", Name(message.direction), from_or_to,
                           message.peer);
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
    case Opcode::kExchange: {
      const Exchange& exchange = program.exchanges[operand];
      return exchange.messages.size() == 1 ? Name(exchange.messages.front().direction) : "exchange";
    }
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
    case Opcode::kExchange: {
      const Exchange& exchange = program.exchanges[instruction.operand];
      if (exchange.messages.size() == 1) {
        text = MessageText(exchange, exchange.messages.front());
      } else {
        text = fmt::format("exchange of {} messages", exchange.messages.size());
      }
      text +=
          fmt::format(" on communicator '{}'", program.communicators[exchange.communicator].name);
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
