#pragma once

#include <string>

#include "src/program/program.h"

namespace stepcast::program {

// The program as text for people: its tables, then prologue and step in host order, one line per
// instruction. Columns: index; phase; micro-batch; label; stream ("host" if none); opcode; operand;
// bytes (a kernel's reads and writes, a collective's or copy's size, a buffer's size); the record
// that a wait waits for ("after step[3]"); and the buffers read ("r") and written ("w"), with the
// byte range if it is not the whole buffer. The program's indices must be valid. The text ends in a
// newline.
std::string Dump(const Program& program);

}  // namespace stepcast::program
