#include "src/planner/score.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "src/planner/search.h"

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

namespace {

double JoulesPerToken(const Goal& goal, const forecast::TrainedStep& step) {
  const forecast::UsedTime used = UsedTimeOf(goal.training, step);
  return GpuJoules(step, step.time.seconds() / used.work, used.busy) /
         std::max<double>(1, static_cast<double>(step.tokens));
}

}  // namespace

Score ScoreOf(const Goal& goal, const PlanFacts& facts, std::int64_t plan, Time step_time,
              Bytes memory, double joules) {
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
    case Target::kEnergy:  // the data center's overhead is the same for all
      score.first = JoulesPerToken(goal, StepOf(facts, step_time, joules));
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

// How goals rate plans.

bool FitsWith(const Goal& goal, const PlanFacts& facts, bool fits, bool fits_host, Bytes over) {
  const Bytes spare(std::llround(goal.spare_memory * static_cast<double>(facts.capacity.count())));
  if (!fits && !(fits_host && over <= spare)) return false;
  return over + HeadroomOf(goal, facts) <= std::max(spare, Bytes(0));
}

const char* Name(Target target) {
  constexpr const char* kNames[] = {"step_time", "throughput", "gpus",  "cost",
                                    "memory",    "days",       "energy"};
  return kNames[static_cast<std::size_t>(target)];
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
