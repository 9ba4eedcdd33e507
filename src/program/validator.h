#pragma once

#include <vector>

#include "src/program/program.h"
#include "src/program/violation.h"

// Proves that a step program is sound before anything runs it: that all it points to exists
// (index_check.h), and that it is free of races and of mistakes in its memory (race_check.h).
namespace stepcast::program {

// Every violation, each once, in the order in which the instructions are met; empty: the program is
// sound. Wrong indices are found first, and then nothing else is looked for.
std::vector<Violation> Validate(const Program& program);

}  // namespace stepcast::program
