#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/report/json_values.h"
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

// "3,512 to 4,051": in milliseconds, where nine of ten measurements are expected; "-": not known.
std::string RangeText(const PlanRow& row);
// The probability that a simulated plan fits, in per cent.
std::string FitText(const planner::Outcome& outcome);
// The extra time for a token compared with another plan, as a fraction of that plan's time.
double Longer(const PlanRow& row, const PlanRow& than);
// Forecasts of plans on one machine are off by so much from one another (docs/accuracy.md,
// "Executions"): a smaller difference does not tell plans apart.
inline constexpr double kTie = 0.02;
inline constexpr const char* kTieText =
    "~: less than 2 % apart, the error between forecasts of plans on one machine\n";
// [low, high] in seconds; empty: not known.
Json RangeJson(const PlanRow& row);
// "-", "+4.3", "+1.2 ~" for a tie: per cent.
std::string LongerText(const PlanRow& row, const PlanRow& than);
// Recipe settings in which two plans differ: "compile, loss, master_weights"; empty if
// there are none.
std::string RecipeDifference(const plan::Plan& a, const plan::Plan& b);

// Why a simulated plan's memory rejects it; empty: it does not.
std::string LackText(const planner::Goal& goal, const planner::PlanFacts& facts,
                     const planner::Outcome& outcome);
// Why a plan is not the best.
std::string WhyText(const planner::Goal& goal, const PlanRow& row);

// Reasons for which plans cannot exist, the most frequent first.
std::vector<std::pair<std::string, std::int64_t>> Sorted(
    const std::map<std::string, std::int64_t>& reasons);

}  // namespace stepcast::report
