#pragma once

#include "src/cli/model_import_command.h"
#include "src/cli/topology_command.h"
#include "src/cli/topology_import_command.h"

namespace CLI {
class App;
}

// The options of commands about models and topologies.
namespace stepcast::cli {

void AddModel(CLI::App& app, ModelImportOptions& options);
void AddTopology(CLI::App& app, TopologyShowOptions& options,
                 TopologyImportOptions& import_options);

}  // namespace stepcast::cli
