#include "src/planner/score.h"

#include <algorithm>

namespace stepcast::planner {

TimePerToken TimePerTokenOf(const PlanFacts& facts, Time step_time) {
  return TimePerToken::Of(step_time, facts.tokens);
}

bool Dominates(const Point& a, const Point& b) {
  if (b.time_per_token < a.time_per_token || a.memory > b.memory || a.gpus > b.gpus) return false;
  return a.time_per_token < b.time_per_token || a.memory < b.memory || a.gpus < b.gpus ||
         a.plan < b.plan;
}

double GpuSecondsPerToken(const PlanFacts& facts, Time step_time) {
  return step_time.seconds() * static_cast<double>(facts.gpus) /
         std::max<double>(1, static_cast<double>(facts.tokens));
}

Score ScoreOf(const Goal& goal, const PlanFacts& facts, std::int64_t plan, Time step_time,
              Bytes memory) {
  Score score{
      .time_per_token = TimePerTokenOf(facts, step_time), .memory = memory.count(), .plan = plan};
  switch (goal.target) {
    case Target::kStepTime:
      break;
    case Target::kThroughput:
      score.first = GpuSecondsPerToken(facts, step_time);
      break;
    case Target::kCost:  // the price is the same for all
      score.first = GpuSecondsPerToken(facts, step_time) /
                    AvailabilityOf(goal.training, StepOf(facts, step_time));
      break;
    case Target::kDays:
      score.first = score.time_per_token.picoseconds() /
                    AvailabilityOf(goal.training, StepOf(facts, step_time));
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

double MeasureOf(const Score& score) {
  return score.first != 0 ? score.first : score.time_per_token.picoseconds();
}

bool IsDominated(const Point& point, const std::vector<Point>& front) {
  return std::any_of(front.begin(), front.end(),
                     [&](const Point& other) { return Dominates(other, point); });
}

void AddToFront(const Point& point, std::vector<Point>& front) {
  if (IsDominated(point, front)) return;
  std::erase_if(front, [&](const Point& other) { return Dominates(point, other); });
  front.push_back(point);
}

}  // namespace stepcast::planner
