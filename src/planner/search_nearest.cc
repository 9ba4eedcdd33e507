#include <algorithm>
#include <cstddef>
#include <iterator>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/expected.h"
#include "src/planner/searcher.h"

namespace stepcast::planner {

Finding Searcher::FindFront() {
  const bool safe = !ranked_.begin()->behind;
  std::vector<Point>& front = fronts_[safe ? 0 : 1];
  using Entry = std::pair<double, std::int64_t>;
  const auto entry = [&](std::int64_t plan) {
    const Point point = PointOfBound(plan);
    return Entry(point.time_per_token.picoseconds() * static_cast<double>(point.memory) *
                     static_cast<double>(point.gpus),
                 plan);
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  result_.states.ForEach(
      [&](std::int64_t plan, std::int64_t, const PlanState& state, const PlanFacts&) {
        if (state.pending && (IsSafe(state.bound) || !safe)) queue.push(entry(plan));
      });
  std::vector<std::int64_t> round;
  while (!queue.empty() && !Enough()) {
    round.clear();
    while (!queue.empty() && round.size() < kRound) {
      const std::int64_t plan = queue.top().second;
      queue.pop();
      if (!IsDominated(PointOfBound(plan), front)) round.push_back(plan);
    }
    if (round.empty()) break;
    const auto worked = WorkOn(round, [&](std::int64_t plan) { queue.push(entry(plan)); });
    if (!worked) return worked;
    Report(static_cast<std::int64_t>(queue.size()));
  }
  if (Enough()) return {};
  std::sort(front.begin(), front.end(), [](const Point& a, const Point& b) {
    return std::tie(a.gpus, a.time_per_token, a.memory) <
           std::tie(b.gpus, b.time_per_token, b.memory);
  });
  for (const Point& point : front) result_.pareto.push_back(point.plan);
  return {};
}

Finding Searcher::FindRisky() {
  if (ranked_.empty() || ranked_.begin()->behind || known_ != nullptr || Enough()) return {};
  Score best = *ranked_.begin();
  best.behind = true;  // compared with others that are
  Queue queue;
  result_.states.ForEach(
      [&](std::int64_t plan, std::int64_t, const PlanState& state, const PlanFacts&) {
        if (!state.pending || IsSafe(state.bound)) return;
        const Score score = ScoreOfBound(plan, Want::kGoal);
        if (score < best) queue.push(score);
      });
  const std::size_t simulated = result_.outcomes.size();
  while (!queue.empty() && queue.top() < best && !Enough() &&
         result_.outcomes.size() == simulated) {
    const std::int64_t plan = queue.top().plan;
    queue.pop();
    const auto worked =
        WorkOn({plan}, [&](std::int64_t again) { queue.push(ScoreOfBound(again, Want::kGoal)); });
    if (!worked) return worked;
  }
  return {};
}

Finding Searcher::FindNearest() {
  SearchOptions options = options_;
  options.pareto = false;
  options.progress = nullptr;
  if (goal_.training.deadline) {
    Goal patient = goal_;
    patient.training.deadline.reset();
    if (patient.target == Target::kGpus || patient.target == Target::kMemory) {
      patient.target = Target::kStepTime;
    }
    STEPCAST_TAKE(auto without, Search(answers_, patient, options, &result_));
    if (!without.best.empty()) {
      result_.nearest = std::move(without.best);
      result_.outcomes.merge(without.outcomes);
      return {};
    }
  }
  return NearestToFit();
}

Finding Searcher::NearestToFit() {
  std::set<Score> nearest;
  Queue queue;
  result_.states.ForEach(
      [&](std::int64_t plan, std::int64_t, const PlanState& state, const PlanFacts&) {
        if (state.verdict == Verdict::kIllegal || state.verdict == Verdict::kSame) return;
        if (options_.among && !options_.among(plan)) return;
        const auto known = result_.outcomes.find(plan);
        if (known == result_.outcomes.end()) {
          queue.push(ScoreOfBound(plan, Want::kNearest));
        } else if (known->second.illegal_message.empty()) {
          nearest.insert(Lack(plan, known->second));
        }
      });
  const auto best = static_cast<std::size_t>(options_.best);
  while (nearest.size() > best) nearest.erase(std::prev(nearest.end()));
  std::vector<std::int64_t> round;
  while (!queue.empty() && !Enough()) {
    round.clear();
    while (!queue.empty() && round.size() < kRound &&
           (nearest.size() < best || queue.top() < *std::prev(nearest.end()))) {
      round.push_back(queue.top().plan);
      queue.pop();
    }
    if (round.empty()) break;
    STEPCAST_TRY(ExpandNearest(round, queue));
    STEPCAST_TAKE(auto stage, WorkOut(round));
    if (answers_.stopped()) break;
    for (std::size_t i = 0; i < round.size(); ++i) {
      const std::int64_t plan = round[i];
      if (!StateOf(plan).sharp) {
        TakeSharper(plan, stage.sharper[i]);
        if (!stage.sharper[i].illegal_code.empty()) continue;
        queue.push(ScoreOfBound(plan, Want::kNearest));
        continue;
      }
      Outcome& outcome = stage.outcomes[i];
      if (outcome.illegal_message.empty()) {
        nearest.insert(Lack(plan, outcome));
        if (nearest.size() > best) nearest.erase(std::prev(nearest.end()));
      }
      result_.outcomes.emplace(plan, std::move(outcome));
    }
    Report();
  }
  for (const Score& score : nearest) result_.nearest.push_back(score.plan);
  return {};
}

Finding Searcher::ExpandNearest(std::vector<std::int64_t>& round, Queue& queue) {
  std::vector<std::int64_t> families;
  for (const std::int64_t plan : round) {
    if (result_.states.Together(plan)) families.push_back(plan);
  }
  std::erase_if(round, [&](std::int64_t plan) { return result_.states.Together(plan); });
  STEPCAST_TRY(Expand(families));
  for (const std::int64_t first : families) {
    const PlanStates::Family& family = result_.states.FamilyOf(first);
    for (std::size_t i = 0; i < family.members.size(); ++i) {
      const Verdict verdict = family.members[i].verdict;
      if (verdict == Verdict::kIllegal || verdict == Verdict::kSame) continue;
      queue.push(ScoreOfBound(first + static_cast<std::int64_t>(i), Want::kNearest));
    }
  }
  return {};
}

Score Searcher::Lack(std::int64_t plan, const Outcome& outcome) const {
  const Bytes lacks = outcome.over + HeadroomOf(goal_, FactsOf(plan));
  return {.first = static_cast<double>(lacks.count()),
          .time_per_token = TimePerTokenOf(FactsOf(plan), outcome.step_time),
          .memory = outcome.memory.count(),
          .plan = plan};
}

}  // namespace stepcast::planner
