#pragma once

#include "src/cli/command.h"
#include "src/cli/init_command.h"

// The options of `stepcast init`.
namespace stepcast::cli {

void AddInit(Command app, InitOptions& options);

}  // namespace stepcast::cli
