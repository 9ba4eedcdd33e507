#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/scenario/resolved.h"

namespace stepcast::emit {

// The tree as JSON for people: a key a line, indented by two columns, sequences of scalars on one
// line; a newline at its end. A tree has whole numbers alone: `decimals` are further members of the
// outermost mapping, after the others.
std::string JsonText(const scenario::Resolved& tree,
                     const std::vector<std::pair<std::string, double>>& decimals = {});

}  // namespace stepcast::emit
