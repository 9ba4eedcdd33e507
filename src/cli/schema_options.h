#pragma once

#include "src/cli/command.h"
#include "src/cli/schema_command.h"

// The options of `stepcast schema`.
namespace stepcast::cli {

void AddSchema(Command app, SchemaOptions& options);

}  // namespace stepcast::cli
