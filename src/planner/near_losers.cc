#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "src/planner/score.h"
#include "src/planner/search.h"

namespace stepcast::planner {
namespace {

// What keeps plans from being the best, in the order in which losers are named.
enum class Miss : std::uint8_t { kSimulated, kBound, kDominated, kTooSlow, kDoesNotFit };
constexpr int kMisses = 5;

}  // namespace

std::vector<std::int64_t> NearLosers(const SearchResult& result, const Goal& goal, int count,
                                     const std::function<std::string(std::int64_t)>& kind) {
  struct Loser {
    Score score;   // by the goal
    Score nearer;  // by what counts for its reason
  };
  std::array<std::vector<Loser>, kMisses> losers;
  for (std::size_t i = 0; i < result.fates.size(); ++i) {
    const auto plan = static_cast<std::int64_t>(i);
    if (result.fates[i] == Fate::kIllegal || result.fates[i] == Fate::kSame) continue;
    const auto found = result.outcomes.find(plan);
    const bool simulated = found != result.outcomes.end();
    if (simulated && !found->second.illegal_message.empty()) continue;
    const PlanFacts& facts = result.facts[i];
    const Time time = simulated ? found->second.step_time : result.bounds[i].step_time;
    const Bytes memory = simulated ? found->second.memory : result.bounds[i].memory;
    const Bytes over =
        (simulated ? found->second.over : result.bounds[i].over) + HeadroomOf(goal, facts);
    const bool fits = simulated ? found->second.fits : result.bounds[i].fits;
    Score score = ScoreOf(goal, facts, plan, time, memory);
    score.flushes = simulated && found->second.flushes > 0;
    Miss miss = Miss::kSimulated;
    if (!fits || over > Bytes(0)) {
      miss = Miss::kDoesNotFit;
    } else if (goal.deadline && TrainingSeconds(goal, facts, time) > goal.deadline->seconds()) {
      miss = Miss::kTooSlow;
    } else if (!simulated) {
      miss = result.fates[i] == Fate::kDominated ? Miss::kDominated : Miss::kBound;
    }
    Score nearer = score;
    if (miss == Miss::kDoesNotFit) nearer.first = static_cast<double>(over.count());
    losers[static_cast<std::size_t>(miss)].push_back({score, nearer});
  }
  std::vector<Loser>& lacking = losers[static_cast<std::size_t>(Miss::kDoesNotFit)];
  if (!result.best.empty()) {
    const std::int64_t best = result.best.front();
    const Outcome& outcome = result.outcomes.at(best);
    Score winner = ScoreOf(goal, result.facts[static_cast<std::size_t>(best)], best,
                           outcome.step_time, outcome.memory);
    winner.flushes = outcome.flushes > 0;
    const auto worse = [&](const Loser& loser) { return !(loser.score < winner); };
    if (!std::all_of(lacking.begin(), lacking.end(), worse)) std::erase_if(lacking, worse);
  }
  for (std::vector<Loser>& of_one : losers) {
    std::sort(of_one.begin(), of_one.end(),
              [](const Loser& a, const Loser& b) { return a.nearer < b.nearer; });
  }
  std::set<std::string> ranked;
  for (const std::int64_t plan : result.best) ranked.insert(kind(plan));
  std::array<std::set<std::string>, kMisses> kinds;
  kinds.fill(ranked);
  std::array<std::size_t, kMisses> next{};
  std::array<std::vector<std::int64_t>, kMisses> named;
  int all = 0;
  for (bool more = true; more && all < count;) {
    more = false;
    for (std::size_t miss = 0; miss < kMisses && all < count; ++miss) {
      while (next[miss] < losers[miss].size()) {
        const std::int64_t plan = losers[miss][next[miss]++].score.plan;
        if (!kinds[miss].insert(kind(plan)).second) continue;
        named[miss].push_back(plan);
        ++all;
        more = true;
        break;
      }
    }
  }
  std::vector<std::int64_t> plans;
  for (const auto& of_one : named) plans.insert(plans.end(), of_one.begin(), of_one.end());
  return plans;
}

}  // namespace stepcast::planner
