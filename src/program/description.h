#pragma once

#include <string>

#include "src/program/program.h"

namespace stepcast::program {

// An instruction as a message names it: "kernel 'mlp.up_proj' of 'layers.3' on stream 'compute'",
// "all_gather on communicator 'data' ...", "allocate 'layers.3.full' ...". Its indices must be
// right.
std::string Describe(const Program& program, const Instruction& instruction);

// Whether an instruction of this kind stands in a stream's queue: a kernel, copy, collective,
// record or wait of an event.
bool RunsOnStream(Opcode opcode);

// The operand's name, or what stands for one: a kernel's name, a collective's kind, a copy's
// direction, the name of an event, buffer or host task.
std::string OperandName(const Program& program, const Instruction& instruction);

}  // namespace stepcast::program
