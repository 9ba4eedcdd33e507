#pragma once

#include "src/cli/collective_command.h"
#include "src/cli/compare_command.h"
#include "src/cli/explain_command.h"
#include "src/cli/memory_command.h"
#include "src/cli/simulate_command.h"

namespace CLI {
class App;
}

// The options of commands that forecast one scenario, or two.
namespace stepcast::cli {

// `timeline`, `no_timeline`: whether the step is drawn; neither: if stdout is a terminal.
void AddSimulate(CLI::App& app, SimulateOptions& options, bool& timeline, bool& no_timeline);
void AddMemory(CLI::App& app, MemoryOptions& options);
void AddCompare(CLI::App& app, CompareOptions& options);
void AddExplain(CLI::App& app, ExplainOptions& options);
void AddCollective(CLI::App& app, CollectiveOptions& options);

}  // namespace stepcast::cli
