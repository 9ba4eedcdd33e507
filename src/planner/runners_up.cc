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

// Why plans are not the best, in the order in which runners-up are listed.
enum class RejectionReason : std::uint8_t { kSimulated, kBound, kDominated, kTooSlow, kDoesNotFit };
constexpr int kReasons = 5;

}  // namespace

std::vector<std::int64_t> RunnersUp(const SearchResult& result, const Goal& goal, int count,
                                    const std::function<std::string(std::int64_t)>& kind) {
  struct RunnerUp {
    Score score;   // by the goal
    Score nearer;  // by what counts for its reason
  };
  std::array<std::vector<RunnerUp>, kReasons> runners_up;
  result.states.ForEach(
      [&](std::int64_t plan, std::int64_t, const PlanState& state, const PlanFacts& facts) {
        if (state.verdict == Verdict::kIllegal || state.verdict == Verdict::kSame ||
            state.verdict == Verdict::kOpen) {
          return;
        }
        const auto found = result.outcomes.find(plan);
        const bool simulated = found != result.outcomes.end();
        if (simulated && !found->second.illegal_message.empty()) return;
        const Time time = simulated ? found->second.step_time : state.bound.step_time;
        const Bytes memory = simulated ? found->second.memory : state.bound.memory;
        const Bytes over =
            (simulated ? found->second.over : state.bound.over) + HeadroomOf(goal, facts);
        const bool fits = simulated ? found->second.fits : state.bound.fits;
        const double joules = simulated ? found->second.joules : state.bound.joules;
        Score score = ScoreOf(goal, facts, plan, time, memory, joules);
        score.behind = simulated && !IsSafe(found->second);
        RejectionReason reason = RejectionReason::kSimulated;
        if (!fits || over > Bytes(0)) {
          reason = RejectionReason::kDoesNotFit;
        } else if (!MeetsDeadline(goal, facts, time)) {
          reason = RejectionReason::kTooSlow;
        } else if (!simulated) {
          reason = state.verdict == Verdict::kDominated ? RejectionReason::kDominated
                                                        : RejectionReason::kBound;
        }
        Score nearer = score;
        if (reason == RejectionReason::kDoesNotFit)
          nearer.first = static_cast<double>(over.count());
        runners_up[static_cast<std::size_t>(reason)].push_back({score, nearer});
      });
  std::vector<RunnerUp>& lacking =
      runners_up[static_cast<std::size_t>(RejectionReason::kDoesNotFit)];
  if (!result.best.empty()) {
    const std::int64_t best = result.best.front();
    const Outcome& outcome = result.outcomes.at(best);
    Score winner = ScoreOf(goal, result.states.FactsOf(best), best, outcome.step_time,
                           outcome.memory, outcome.joules);
    winner.behind = !IsSafe(outcome);
    const auto worse = [&](const RunnerUp& runner_up) { return !(runner_up.score < winner); };
    if (!std::all_of(lacking.begin(), lacking.end(), worse)) std::erase_if(lacking, worse);
  }
  for (std::vector<RunnerUp>& of_one : runners_up) {
    std::sort(of_one.begin(), of_one.end(),
              [](const RunnerUp& a, const RunnerUp& b) { return a.nearer < b.nearer; });
  }
  std::set<std::string> ranked;
  for (const std::int64_t plan : result.best) ranked.insert(kind(plan));
  std::array<std::set<std::string>, kReasons> kinds;
  kinds.fill(ranked);
  std::array<std::size_t, kReasons> next{};
  std::array<std::vector<std::int64_t>, kReasons> named;
  int all = 0;
  for (bool more = true; more && all < count;) {
    more = false;
    for (std::size_t reason = 0; reason < kReasons && all < count; ++reason) {
      while (next[reason] < runners_up[reason].size()) {
        const std::int64_t plan = runners_up[reason][next[reason]++].score.plan;
        if (!kinds[reason].insert(kind(plan)).second) continue;
        named[reason].push_back(plan);
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
