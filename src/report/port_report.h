#pragma once

#include <string>
#include <vector>

#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/report/json.h"
#include "src/report/plan_report.h"

// The part of the output of `plan --port` that compares the plan here and there. For the .cc files
// of this package only.
namespace stepcast::report {

// Empty and null without PlanReport::port.
std::string PortText(const PlanReport& report);
Json PortJson(const PlanReport& report);

}  // namespace stepcast::report
