#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/program/program.h"

// Checks that a program's data flow (data_flow.h) fits the program. The instruction must declare
// every write of an effect as written, and every read as used; all must be inside buffers; and
// collectives must move as many bytes as they state. Exchanges have no effects: sent bytes arrive
// unchanged. Ordering is checked by the validator (validator.h) through the declared uses.
namespace stepcast::program {

// One sentence per violation, in the order of instructions. Empty: the data flow is sound, or there
// is none. The program itself must be sound.
std::vector<std::string> ValidateDataFlow(const Program& program);

// Extent of a move in the target or the source, from its first element to past its last, in
// elements.
std::int64_t TargetExtent(const Effect& move);
std::int64_t SourceExtent(const Effect& move);

}  // namespace stepcast::program
