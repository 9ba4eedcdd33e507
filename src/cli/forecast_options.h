#pragma once

#include "src/cli/collective_command.h"
#include "src/cli/command.h"
#include "src/cli/compare_command.h"
#include "src/cli/explain_command.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/memory_command.h"
#include "src/cli/simulate_command.h"

// The options of commands that forecast one scenario, or two.
namespace stepcast::cli {

// `timeline`, `no_timeline`: whether the step is drawn; neither: if stdout is a terminal.
void AddSimulate(Command app, ScenarioFiles& files, SimulateOptions& options, bool& timeline,
                 bool& no_timeline);
void AddMemory(Command app, ScenarioFiles& files, MemoryOptions& options);
void AddCompare(Command app, CompareOptions& options);
void AddExplain(Command app, ScenarioFiles& files, ExplainOptions& options);
void AddCollective(Command app, CollectiveOptions& options);

}  // namespace stepcast::cli
