#pragma once

#include <string>

#include "src/program/program.h"

namespace stepcast::program {

// Returns the instruction as described in messages: "kernel 'mlp.up_proj' of 'layers.3' on stream
// 'compute'", "all_gather on communicator 'data' ...", "allocate 'layers.3.full' ...". The
// instruction's indices must be valid.
std::string Describe(const Program& program, const Instruction& instruction);

// Returns a message as text: "send to position 3", "receive from distance -1".
std::string MessageText(const Exchange& exchange, const Message& message);

// Whether instructions of this kind are in a stream's queue: kernels, copies, collectives,
// exchanges, event records and stream waits.
inline bool RunsOnStream(Opcode opcode) {
  switch (opcode) {
    case Opcode::kKernel:
    case Opcode::kCopy:
    case Opcode::kCollective:
    case Opcode::kExchange:
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

// Returns the communicator of a collective or an exchange; kNone for other instructions.
Index CommunicatorOf(const Program& program, const Instruction& instruction);

// Whether a device runs the instruction: a kernel, copy, collective or exchange.
inline bool IsLaunched(Opcode opcode) {
  return opcode == Opcode::kKernel || opcode == Opcode::kCopy || opcode == Opcode::kCollective ||
         opcode == Opcode::kExchange;
}

// Returns the operand's name: a kernel's name, a collective's kind, "send", "receive" or, for
// several messages, "exchange", a copy's direction, the name of an event, buffer or host task.
std::string OperandName(const Program& program, const Instruction& instruction);

// Returns the program as text for people: its tables, then prologue and step in host order, one
// line per instruction. The first columns are index, phase, micro-batch, label, stream or "host",
// opcode and operand. Next are the bytes: a kernel's reads and writes, or the size of a collective,
// copy or buffer. A wait ends with the record that it waits for ("after step[3]"). Other
// instructions end with the buffers that they read ("r") and write ("w"), with the byte range if it
// is not the whole buffer. The program's indices must be valid. The text ends in a newline.
std::string Dump(const Program& program);

}  // namespace stepcast::program
