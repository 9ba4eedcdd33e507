#pragma once

#include <string>

#include "src/cost/prices.h"
#include "src/planner/short_program.h"
#include "src/program/program.h"

namespace stepcast::planner {

// 128 bits in 32 hexadecimal digits of all that times and memory of a program depend on: streams,
// operations by what they take and use, issue costs, events, buffers, and the order of everything.
// Names, labels, and which kernel takes a time do not count. Equal for equal contents, and as good
// as never for two that happen to differ.
std::string DigestOf(const program::Program& program, const Repeated& repeated,
                     const cost::Prices& prices);

}  // namespace stepcast::planner
