#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/report/plan_page.h"
#include "src/report/plan_report.h"

namespace stepcast::report {

// The result of `plan`, as its page shows it. `about`: of the scenario, "model" and its name, and
// so on; `name`: what tells a plan from the others.
SearchView ViewOf(const PlanReport& report, std::vector<std::pair<std::string, std::string>> about,
                  const std::function<std::string(std::int64_t plan)>& name);

}  // namespace stepcast::report
