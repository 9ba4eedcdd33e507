#pragma once

#include "src/cli/command.h"

namespace stepcast::cli {

// The command that answers questions of other programs; it has no options.
void AddServe(Command app);

}  // namespace stepcast::cli
