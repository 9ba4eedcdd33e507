#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/report/plan_report.h"

// What text and document of `plan` say of a row. For the .cc files of this package only.
namespace stepcast::report {

// How much memory is missing: what a plan needs and what is to stay free of a device, less what the
// device has. Everything that is said to be lacking is this.
Bytes Lacks(const planner::Goal& goal, const planner::PlanFacts& facts, Bytes over);

Bytes Needed(const planner::Outcome& outcome);

// What is shown of a plan in any table.
struct Shown {
  Time step_time;
  Bytes peak, needed;
};
Shown ShownOf(const PlanRow& row);

// Why a simulated plan's memory rejects it; empty: it does not.
std::string LackText(const planner::Goal& goal, const planner::PlanFacts& facts,
                     const planner::Outcome& outcome);
// Why a plan is not the best.
std::string WhyText(const planner::Goal& goal, const PlanRow& row);

// Reasons for which plans cannot exist, the most frequent first.
std::vector<std::pair<std::string, std::int64_t>> Sorted(
    const std::map<std::string, std::int64_t>& reasons);

}  // namespace stepcast::report
