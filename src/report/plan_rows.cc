#include "src/report/plan_rows.h"

#include <algorithm>

#include "fmt/format.h"
#include "src/base/quantity.h"

namespace stepcast::report {

using planner::Goal;
using planner::Verdict;

namespace {

// Why a plan of that memory is rejected; empty: it is not.
std::string LackText(const Goal& goal, const planner::PlanFacts& facts, Bytes needed, Bytes over,
                     const char* at_least) {
  const Bytes lacks = Lacks(goal, facts, over);
  if (lacks <= Bytes(0)) return "";
  if (over > needed - facts.capacity) {  // then it is not the devices that lack most
    return fmt::format("lacks{} {} of a node's own memory or drives", at_least, FormatBytes(over));
  }
  return fmt::format("lacks{} {}{}", at_least, FormatBytes(lacks),
                     HeadroomOf(goal, facts) > Bytes(0) ? ", headroom included" : "");
}

}  // namespace

Bytes Lacks(const Goal& goal, const planner::PlanFacts& facts, Bytes over) {
  return over + HeadroomOf(goal, facts);
}

Bytes Needed(const planner::Outcome& outcome) { return outcome.reserved + outcome.outside; }

Shown ShownOf(const PlanRow& row) {
  if (!row.simulated) return {row.bound.step_time, row.bound.memory, row.bound.needed};
  return {row.outcome.step_time, row.outcome.memory, Needed(row.outcome)};
}

std::string LackText(const Goal& goal, const planner::PlanFacts& facts,
                     const planner::Outcome& outcome) {
  return LackText(goal, facts, Needed(outcome), outcome.over, "");
}

std::string WhyText(const Goal& goal, const PlanRow& row) {
  if (row.simulated) {
    if (!row.outcome.illegal_message.empty()) return row.outcome.illegal_message;
    const std::string lack = LackText(goal, row.facts, row.outcome);
    if (!lack.empty()) return lack;
    if (!MeetsDeadline(goal, row.facts, row.outcome.step_time)) return "too slow for the deadline";
    return "simulated, and not among the best";
  }
  if (row.verdict == Verdict::kDoesNotFit) {
    return LackText(goal, row.facts, row.bound.needed, row.bound.over, " at least");
  }
  if (row.verdict == Verdict::kTooSlow) return "too slow for the deadline, by its bound";
  return row.verdict == Verdict::kDominated ? "dominated, by its bound" : "bound";
}

std::vector<std::pair<std::string, std::int64_t>> Sorted(
    const std::map<std::string, std::int64_t>& reasons) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(reasons.begin(), reasons.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

}  // namespace stepcast::report
