#pragma once

#include "src/cli/command.h"
#include "src/cli/model_import_command.h"
#include "src/cli/topology_command.h"
#include "src/cli/topology_import_command.h"

// The options of commands about models and topologies.
namespace stepcast::cli {

void AddModel(Command app, ModelImportOptions& options);
void AddTopology(Command app, TopologyShowOptions& options, TopologyImportOptions& import_options);

}  // namespace stepcast::cli
