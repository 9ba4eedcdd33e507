#pragma once

#include <string>

#include "src/program/program.h"

namespace stepcast::program {

// The whole program as text for people: its tables, then prologue and step with one line an
// instruction, in host order. The columns are: index; phase; micro-batch; label; stream ("host" for
// what has none); opcode; operand; bytes (what a kernel reads and writes, a collective's or
// copy's size, a buffer's size); then what it waits for ("after step[3]"), and the buffers it
// reads ("r") and writes ("w"), with the range of bytes unless it is the whole buffer. The
// program's indices must be right. Ends in a newline.
std::string Dump(const Program& program);

}  // namespace stepcast::program
