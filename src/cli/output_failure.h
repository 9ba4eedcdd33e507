#pragma once

#include <optional>
#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

// Why a file that was asked for cannot be made: a slip in its name, a folder that is not there or
// the name of one, is wrong input with a hint; anything else failed, as `failure` says.
Outcome CannotCreate(const std::string& path, const std::string& failure);

// The folder that `path`, a file or a folder, is to be made in does not exist: an outcome if so.
std::optional<Outcome> NoFolderFor(const std::string& path);

}  // namespace stepcast::cli
