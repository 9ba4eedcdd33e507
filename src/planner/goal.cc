// How goals rate plans.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/planner/score.h"
#include "src/planner/search.h"

namespace stepcast::planner {

bool FitsWith(const Goal& goal, const PlanFacts& facts, bool fits, bool fits_host, Bytes over) {
  const Bytes spare(std::llround(goal.spare_memory * static_cast<double>(facts.capacity.count())));
  if (!fits && !(fits_host && over <= spare)) return false;
  return over + HeadroomOf(goal, facts) <= std::max(spare, Bytes(0));
}

const char* Name(Target target) {
  switch (target) {
    case Target::kStepTime:
      return "step_time";
    case Target::kThroughput:
      return "throughput";
    case Target::kGpus:
      return "gpus";
    case Target::kCost:
      return "cost";
    case Target::kMemory:
      return "memory";
    case Target::kDays:
      return "days";
  }
  return "";
}

Bytes HeadroomOf(const Goal& goal, const PlanFacts& facts) {
  const double part = goal.headroom_part * static_cast<double>(facts.capacity.count());
  return goal.headroom + Bytes(std::llround(part));
}

bool Eligible(const Goal& goal, const PlanFacts& facts, const Outcome& outcome) {
  if (!outcome.illegal_message.empty()) return false;
  return FitsWith(goal, facts, outcome.fits, outcome.fits_host, outcome.over) &&
         MeetsDeadline(goal, facts, outcome.step_time);
}

bool Tied(const Outcome& plan, const Outcome& other) {
  constexpr double kTime = 5e-4, kMemory = 0.01;
  return std::abs(other.step_time / plan.step_time - 1) <= kTime &&
         static_cast<double>(other.memory.count()) >=
             (1 - kMemory) * static_cast<double>(plan.memory.count());
}

}  // namespace stepcast::planner
