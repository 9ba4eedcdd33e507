#pragma once

#include "src/cli/plan_command.h"
#include "src/cli/sweep_command.h"

namespace CLI {
class App;
}

// The options of commands that forecast many plans.
namespace stepcast::cli {

void AddSweep(CLI::App& app, SweepOptions& options);
void AddPlan(CLI::App& app, PlanOptions& options);

}  // namespace stepcast::cli
