#pragma once

#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/scenario/document.h"
#include "src/scenario/resolved.h"

// The format plan.json: a scenario with every default filled in, which `--emit` writes for other
// programs. Version 1 is {"stepcast_plan": 1, "scenario": {...}}.
namespace stepcast::scenario {

inline constexpr int kPlanVersion = 1;

// Returns the scenario in the document. If the document is a plan, this is the plan's scenario; if
// it is a scenario, this is the document itself. Otherwise, and for a plan of another version or
// with other keys, appends a Diagnostic and returns none (plan_file.cc).
std::optional<Node> ScenarioOfPlan(const Node& document, Diagnostics& diagnostics);

// Returns the plan.json of a scenario, as a tree.
Resolved PlanOf(const Resolved& scenario);

}  // namespace stepcast::scenario
