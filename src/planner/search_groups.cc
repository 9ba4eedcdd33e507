#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/expected.h"
#include "src/planner/searcher.h"

namespace stepcast::planner {
namespace {

// Plans with at most this many passes have quick forecasts.
constexpr std::int64_t kFewPasses = 128;

// The time of a forecast grows with the number of passes. A search that may be ended early first
// tries plans with quick forecasts, for a few rounds each.
constexpr std::int64_t kAnyPasses = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kPassesOfForecasts[] = {1'024, 8'192, kAnyPasses};
constexpr int kFewRounds = 8;

// The fractions of the device that bounds of memory leave free, for plans that are tried first.
// Bounds of memory may be far below what a plan needs.
constexpr double kRooms[] = {0.5, 0.7, 0.85};

}  // namespace

Finding Searcher::FindGoodOnes() {
  constexpr int kRounds = 64;
  Finding found;
  if (ranked_.empty()) found = FindFirst();
  if (!options_.anytime || !options_.kind || groups_.empty()) {
    if (found) found = FindSomeOfGroups(1);
    if (found) found = FindBest(kRounds);
    return found;
  }
  if (found) found = FindFirstOfGroups();
  for (const std::int64_t passes : kPassesOfForecasts) {
    if (found) found = FindBestOfKinds(passes == kAnyPasses ? kRounds : kFewRounds, passes);
    if (found) found = ImproveBest();
  }
  if (found && ranked_.empty()) found = FindSomeOfGroups(1);
  if (found && !ranked_.empty()) found = FindBestOfFamily(ranked_.begin()->plan, kRounds);
  return found;
}

Finding Searcher::FindFirst() {
  for (const std::int64_t most : {kFewPasses, kAnyPasses}) {
    STEPCAST_TRY(FindFirstAmong(most));
    if (!ranked_.empty()) break;
  }
  return {};
}

Finding Searcher::FindFirstAmong(std::int64_t most_passes) {
  constexpr int kAtOnce = 2;
  constexpr int kRounds = 3;
  for (const double room : kRooms) {
    Queue queue;
    result_.states.ForEach(
        [&](std::int64_t plan, std::int64_t, const PlanState& state, const PlanFacts&) {
          if (state.pending) queue.push(InGroup(plan, room));
        });
    for (int round = 0; round < kRounds; ++round) {
      if (!ranked_.empty() || Enough()) return {};
      STEPCAST_TAKE(const auto some, Forecast(queue, kAtOnce, most_passes));
      if (!some) break;
    }
  }
  return {};
}

Finding Searcher::FindFirstOfGroups() {
  constexpr int kRounds = 2;
  for (const double room : kRooms) {
    std::vector<Queue> queues = PendingOfGroups(room);
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      for (int round = 0; round < kRounds && groups_[group].ranked.empty(); ++round) {
        if (Enough()) return {};
        STEPCAST_TAKE(const auto some, Forecast(queues[group], 1, kFewPasses));
        if (!some) break;
      }
    }
  }
  return {};
}

tl::expected<bool, std::string> Searcher::Forecast(Queue& queue, int most,
                                                   std::int64_t most_passes) {
  std::vector<std::int64_t> plans;
  while (!queue.empty() && !queue.top().behind && static_cast<int>(plans.size()) < most) {
    const std::int64_t first = queue.top().plan;
    queue.pop();
    const PlanFacts& facts = FactsOf(first);
    if (facts.passes > most_passes) continue;
    if (result_.states.Together(first)) {
      // Without a bound of memory, the family may hold no plan that fits. Expanding it takes long.
      if (StateOf(first).bound.over <= Bytes(0) - facts.capacity) continue;
      STEPCAST_TRY(Expand({first}));
      if (answers_.stopped()) return false;
    }
    const PlanStates::Family& family = result_.states.FamilyOf(first);
    for (std::int64_t plan = first; plan < family.first + family.plans; ++plan) {
      if (!StateOf(plan).pending) continue;
      StateOf(plan).sharp = true;  // its forecast, without a sharper bound before
      plans.push_back(plan);
      break;
    }
  }
  if (plans.empty()) return false;
  STEPCAST_TRY(Advance(plans));
  return true;
}

Finding Searcher::FindBestOfKinds(int rounds, std::int64_t most_passes) {
  if (Enough()) return {};
  std::vector<Queue> queues = PendingOfGroups(0, most_passes);
  std::map<std::string, std::int64_t> chosen;
  std::vector<std::int64_t> round;
  while (!Enough() && rounds-- > 0) {
    round.clear();
    std::set<std::size_t> asked;
    while (round.size() < kFew) {
      const std::size_t group = MostPromising(queues, asked);
      if (group == queues.size()) break;
      const std::int64_t plan = queues[group].top().plan;
      queues[group].pop();
      const auto [own, first] = chosen.emplace(options_.kind(plan), plan);
      if (!first && own->second != plan) continue;
      round.push_back(plan);
      // From a group without a forecast, only one plan at a time.
      if (groups_[group].over_bound == 0) asked.insert(group);
      // Its plans are evaluated one by one; one of them is chosen later.
      if (result_.states.Together(plan)) chosen.erase(own);
    }
    if (round.empty()) break;
    const auto worked = WorkOn(round, [&](std::int64_t plan) {
      queues[static_cast<std::size_t>(options_.group(plan))].push(InGroup(plan, 0));
    });
    if (!worked) return worked;
  }
  return {};
}

std::size_t Searcher::MostPromising(const std::vector<Queue>& queues,
                                    const std::set<std::size_t>& but) const {
  std::size_t found = queues.size();
  double least = std::numeric_limits<double>::max();
  for (std::size_t group = 0; group < queues.size(); ++group) {
    const Queue& queue = queues[group];
    if (queue.empty() || but.contains(group)) continue;
    if (!ranked_.empty() && !(queue.top() < *ranked_.begin())) continue;
    const double expected = MeasureOf(queue.top()) * std::max(1.0, groups_[group].over_bound);
    if (expected >= least) continue;
    least = expected;
    found = group;
  }
  return found;
}

Finding Searcher::ImproveBest() {
  std::int64_t from = -1;
  while (options_.neighbours && !ranked_.empty() && ranked_.begin()->plan != from && !Enough()) {
    from = ranked_.begin()->plan;
    Queue queue;
    const auto add = [&](std::int64_t plan) {
      const Score score = ScoreOfBound(plan, Want::kGoal);
      if (StateOf(plan).pending && score < *ranked_.begin()) queue.push(score);
    };
    for (const std::int64_t plan : options_.neighbours(from)) add(plan);
    while (!queue.empty() && !Enough()) {
      std::vector<std::int64_t> round;
      for (; !queue.empty() && round.size() < kFew; queue.pop()) {
        if (queue.top() < *ranked_.begin()) round.push_back(queue.top().plan);
      }
      if (round.empty()) break;
      STEPCAST_TRY(WorkOn(round, add));
    }
  }
  return {};
}

Finding Searcher::FindBestOfFamily(std::int64_t of, int rounds) {
  const PlanStates::Family& family = result_.states.FamilyOf(of);
  Queue queue;
  for (std::size_t i = 0; i < family.members.size(); ++i) {
    const std::int64_t plan = family.first + static_cast<std::int64_t>(i);
    if (family.members[i].pending) queue.push(ScoreOfBound(plan, Want::kGoal));
  }
  return FindBestIn(std::move(queue), rounds);
}

Score Searcher::InGroup(std::int64_t plan, double room) const {
  Score score = ScoreOfBound(plan, Want::kGoal);
  const auto left = static_cast<double>(-StateOf(plan).bound.over.count());
  score.behind |= left < room * static_cast<double>(FactsOf(plan).capacity.count());
  return score;
}

std::vector<Searcher::Queue> Searcher::PendingOfGroups(double room, std::int64_t most_passes) {
  std::vector<Queue> queues(groups_.size());
  for (Group& group : groups_) group.plans = 0;
  if (groups_.empty()) return queues;
  result_.states.ForEach(
      [&](std::int64_t plan, std::int64_t plans, const PlanState& state, const PlanFacts& facts) {
        if (state.verdict == Verdict::kIllegal) return;
        const auto group = static_cast<std::size_t>(options_.group(plan));
        groups_[group].plans += plans;
        if (state.pending && facts.passes <= most_passes) queues[group].push(InGroup(plan, room));
      });
  return queues;
}

tl::expected<bool, std::string> Searcher::WorkOnGroup(Queue& queue, double room) {
  std::vector<std::int64_t> round;
  while (!queue.empty() && round.size() < kFew) {
    round.push_back(queue.top().plan);
    queue.pop();
  }
  if (round.empty()) return false;
  const auto worked = WorkOn(round, [&](std::int64_t plan) { queue.push(InGroup(plan, room)); });
  Report();
  if (!worked) return tl::unexpected(worked.error());
  return true;
}

Finding Searcher::FindSomeOfGroups(std::size_t groups) {
  constexpr int kLooks = 32;
  for (const double room : {0.1, 0.4, 0.7}) {
    if (Enough()) break;
    std::vector<Queue> queues = PendingOfGroups(room);
    std::vector<std::size_t> order;  // the most promising first
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (!queues[group].empty() && groups_[group].ranked.empty()) order.push_back(group);
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return queues[a].top() < queues[b].top(); });
    order.resize(std::min(order.size(), groups));
    for (const std::size_t group : order) {
      for (int look = 0; look < kLooks && groups_[group].ranked.empty(); ++look) {
        if (Enough()) return {};
        STEPCAST_TAKE(const auto some, WorkOnGroup(queues[group], room));
        if (!some) break;
      }
    }
    if (groups == 1 && !ranked_.empty()) break;
  }
  return {};
}

Finding Searcher::FindBestOfGroups() {
  constexpr double kClose = 0.95;
  constexpr int kLooks = 32;
  std::vector<Queue> queues = PendingOfGroups(0);
  result_.groups.resize(groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::set<Score>& ranked = groups_[g].ranked;
    const auto open = [&] {
      if (queues[g].empty()) return false;
      return ranked.empty() || (queues[g].top() < *ranked.begin() &&
                                MeasureOf(queues[g].top()) < kClose * MeasureOf(*ranked.begin()));
    };
    for (int look = 0; look < kLooks && open() && !Enough(); ++look) {
      STEPCAST_TRY(WorkOnGroup(queues[g], 0));
    }
    GroupBest& said = result_.groups[g] = {.plans = groups_[g].plans};
    if (ranked.empty()) continue;
    said.best = ranked.begin()->plan;
    const bool less = !queues[g].empty() && queues[g].top() < *ranked.begin();
    said.least = less ? MeasureOf(queues[g].top()) / MeasureOf(*ranked.begin()) : 1;
  }
  return {};
}

void Searcher::SayWhatComesNearest() {
  std::vector<Score> nearest(result_.groups.size());
  result_.states.ForEach(
      [&](std::int64_t plan, std::int64_t, const PlanState& state, const PlanFacts&) {
        if (state.verdict == Verdict::kIllegal || state.verdict == Verdict::kSame ||
            result_.groups.empty()) {
          return;
        }
        const auto group = static_cast<std::size_t>(options_.group(plan));
        GroupBest& said = result_.groups[group];
        if (said.best >= 0) return;
        const auto known = result_.outcomes.find(plan);
        const bool simulated = known != result_.outcomes.end();
        if (simulated && !known->second.illegal_message.empty()) return;
        Score score = simulated ? Lack(plan, known->second) : ScoreOfBound(plan, Want::kNearest);
        score.behind = !simulated;  // a bound may be far below what the plan needs
        if (said.nearest >= 0 && !(score < nearest[group])) return;
        said.nearest = plan;
        nearest[group] = score;
      });
}

}  // namespace stepcast::planner
