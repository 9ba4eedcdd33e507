#pragma once

#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/scenario/document.h"
#include "src/scenario/resolved.h"

// The format plan.json: a scenario with all defaults, which `--emit` writes. Version 1 is
// {"stepcast_plan": 1, "scenario": {...}}.
namespace stepcast::scenario {

inline constexpr int kPlanVersion = 1;

// Returns the scenario in the document, which must be a plan.json or a scenario. For any other
// document, another version or unknown keys, appends a Diagnostic and returns no value.
std::optional<Node> ScenarioOfPlan(const Node& document, Diagnostics& diagnostics);

// Returns the plan.json of a scenario, as a tree.
Resolved PlanOf(const Resolved& scenario);

}  // namespace stepcast::scenario
