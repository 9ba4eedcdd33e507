#pragma once

#include <string>

#include "src/scenario/resolved.h"

namespace stepcast::emit {

// The tree as JSON for people: a key a line, indented by two columns, sequences of scalars on one
// line; a newline at its end.
std::string JsonText(const scenario::Resolved& tree);

}  // namespace stepcast::emit
