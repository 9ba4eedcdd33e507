#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/planner/plan_space.h"
#include "src/scenario/scenario.h"

// Builds the plan space for PlanSpace::Around. Only PlanSpace::Around uses this header.
namespace stepcast::planner {

struct BuiltSpace {
  std::vector<PlanPart> parts;  // without plan indices
  LayoutsGiven given;
  std::vector<std::string> notes;
  std::vector<HeldSetting> held;
};
Result<BuiltSpace> BuildSpace(const scenario::Scenario& scenario, const SpaceOptions& options);

}  // namespace stepcast::planner
