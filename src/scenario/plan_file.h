#pragma once

#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/scenario/document.h"
#include "src/scenario/resolved.h"

// The format plan.json: a scenario with every default filled in, as `--emit` writes it for other
// programs. Version 1 is {"stepcast_plan": 1, "scenario": {...}}.
namespace stepcast::scenario {

inline constexpr int kPlanVersion = 1;

// Returns the scenario in the document: that of a plan, or the document itself if it is a scenario.
// Returns none, after appending what is wrong, for a plan of another version or with other keys,
// and for a file that is neither (plan_file.cc).
std::optional<Node> ScenarioOfPlan(const Node& document, Diagnostics& diagnostics);

// Returns the plan of a scenario, as a tree.
Resolved PlanOf(const Resolved& scenario);

}  // namespace stepcast::scenario
