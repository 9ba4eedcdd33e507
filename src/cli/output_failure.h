#pragma once

#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

// Why a file that was asked for cannot be made: a slip in its name, a folder that is not there or
// the name of one, is wrong input with a hint; anything else failed, as `failure` says.
Outcome CannotCreate(const std::string& path, const std::string& failure);

}  // namespace stepcast::cli
