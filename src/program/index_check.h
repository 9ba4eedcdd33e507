#pragma once

#include <vector>

#include "src/program/program.h"
#include "src/program/violation.h"

// Proves that all that a step program points to exists: operands, streams, uses, labels, names,
// byte ranges, groups and peers.
namespace stepcast::program {

// One violation (kIndex) for each that does not, tables first, then instructions in order.
std::vector<Violation> CheckIndices(const Program& program);

}  // namespace stepcast::program
