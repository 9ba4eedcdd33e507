#pragma once

#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

// Puts `text` into `file`, complete or not at all, or on stdout when `file` is empty.
Outcome PutText(const std::string& file, std::string text);

}  // namespace stepcast::cli
