#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/program/program.h"

// Checks that a program's data flow (data_flow.h) fits the program. An instruction must declare
// every write of its effects as written, and every read as used. All ranges must be inside buffers,
// and collectives must move as many bytes as they state. Exchanges have no effects, because sent
// bytes arrive unchanged. The validator (validator.h) checks the order of operations by their
// declared uses.
namespace stepcast::program {

// Returns one sentence per violation, in the order of instructions. Empty: the data flow is valid,
// or the program has no data flow. The program itself must be valid.
std::vector<std::string> ValidateDataFlow(const Program& program);

// These functions return the extent of a move in the target and in the source, in elements. The
// extent reaches from the move's first element to the end of its last element.
std::int64_t TargetExtent(const Effect& move);
std::int64_t SourceExtent(const Effect& move);

}  // namespace stepcast::program
