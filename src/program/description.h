#pragma once

#include <string>

#include "src/program/program.h"

namespace stepcast::program {

// Returns the description of an instruction for messages. Examples: "kernel 'mlp.up_proj' of
// 'layers.3' on stream 'compute'", "all_gather on communicator 'data' ...", "allocate
// 'layers.3.full' ...". The instruction's indices must be valid.
std::string Describe(const Program& program, const Instruction& instruction);

// Returns a message as text, such as "send to position 3" or "receive from distance -1".
std::string MessageText(const Exchange& exchange, const Message& message);

// Returns whether instructions of this kind are in a stream's queue: kernels, copies, collectives,
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

// Returns whether a device runs instructions of this kind: kernels, copies, collectives and
// exchanges.
inline bool IsLaunched(Opcode opcode) {
  return opcode == Opcode::kKernel || opcode == Opcode::kCopy || opcode == Opcode::kCollective ||
         opcode == Opcode::kExchange;
}

// Returns the name of an instruction's operand. The name is a kernel's name, a collective's kind, a
// copy's direction, or the name of an event, buffer or host task. For an exchange, the name is
// "send", "receive" or, if there are several messages, "exchange".
std::string OperandName(const Program& program, const Instruction& instruction);

// Returns the program as readable text: its tables, then prologue and step in host order, one line
// per instruction.
//
// The first columns are index, phase, micro-batch, label, stream or "host", opcode and operand. The
// next column has bytes: the bytes that a kernel reads and writes, or the size of a collective,
// copy or buffer. The line of a wait ends with the record for which the instruction waits ("after
// step[3]"). Other lines end with the buffers that the instruction reads ("r") and writes ("w"),
// with a byte range unless the instruction uses the full buffer. The program's indices must be
// valid. The text ends in a newline.
std::string Dump(const Program& program);

}  // namespace stepcast::program
