#pragma once

#include "src/cli/command.h"
#include "src/cli/list_command.h"

// The options of `stepcast list`.
namespace stepcast::cli {

void AddList(Command app, ListOptions& options);

}  // namespace stepcast::cli
