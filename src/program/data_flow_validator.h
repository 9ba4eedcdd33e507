#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/program/program.h"

// Proves that a program's data flow (data_flow.h) fits the program: what an effect writes, its
// instruction declares as written; what it reads, as used; all of it inside buffers; collectives
// move as many bytes as they say. Exchanges have no effects: what is sent, by their uses, arrives
// as it is. What is ordered after what need not be looked at again: the validator (validator.h)
// does that by the declared uses.
namespace stepcast::program {

// One sentence for every violation, in the order of the instructions; empty: the data flow is
// sound, or there is none. The program itself must be sound.
std::vector<std::string> ValidateDataFlow(const Program& program);

// How far a move reaches from its first element to behind its last, in elements.
std::int64_t TargetExtent(const Effect& move);
std::int64_t SourceExtent(const Effect& move);

}  // namespace stepcast::program
