#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/scenario/resolved.h"

namespace stepcast::emit {

// The tree as readable JSON: a key per line, indented by two columns, with sequences of scalars on
// one line and a newline at the end. A tree has only integers; `decimals` are additional members at
// the end of the outermost mapping.
std::string JsonText(const scenario::Resolved& tree,
                     const std::vector<std::pair<std::string, double>>& decimals = {});

}  // namespace stepcast::emit
