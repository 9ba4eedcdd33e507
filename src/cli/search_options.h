#pragma once

#include "src/cli/command.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/plan_command.h"
#include "src/cli/sweep_command.h"

// The options of commands that forecast many plans.
namespace stepcast::cli {

void AddSweep(Command app, SweepOptions& options);
void AddPlan(Command app, ScenarioFiles& files, PlanOptions& options);

}  // namespace stepcast::cli
