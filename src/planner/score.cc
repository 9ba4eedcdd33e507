#include "src/planner/score.h"

#include <algorithm>

namespace stepcast::planner {

Pace PaceOf(const PlanFacts& facts, Time step_time) {
  return {step_time.picoseconds(), std::max<std::int64_t>(1, facts.tokens)};
}

bool Dominates(const Point& a, const Point& b) {
  if (b.pace < a.pace || a.memory > b.memory || a.gpus > b.gpus) return false;
  return a.pace < b.pace || a.memory < b.memory || a.gpus < b.gpus || a.plan < b.plan;
}

double GpuSecondsPerToken(const PlanFacts& facts, Time step_time) {
  return step_time.seconds() * static_cast<double>(facts.gpus) /
         std::max<double>(1, static_cast<double>(facts.tokens));
}

Score ScoreOf(const Goal& goal, const PlanFacts& facts, std::int64_t plan, Time step_time,
              Bytes memory) {
  Score score{.pace = PaceOf(facts, step_time), .memory = memory.count(), .plan = plan};
  switch (goal.target) {
    case Target::kStepTime:
      break;
    case Target::kThroughput:
    case Target::kCost:  // the price is the same for all
      score.first = GpuSecondsPerToken(facts, step_time);
      break;
    case Target::kGpus:
      score.first = static_cast<double>(facts.gpus);
      break;
    case Target::kMemory:
      score.first = static_cast<double>(memory.count());
      break;
  }
  return score;
}

}  // namespace stepcast::planner
