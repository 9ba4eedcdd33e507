#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/expected.h"
#include "src/planner/answers.h"
#include "src/planner/plan_states.h"
#include "src/planner/score.h"
#include "src/planner/search.h"
#include "src/planner/search_problem.h"
#include "tl/expected.hpp"

// The state of a search (search.h). search.cc ranks plans. search_groups.cc finds the first
// plans that fit and the best plan of each group. search_nearest.cc finds the Pareto front and the
// plans nearest to the goal.
// Only these files include this header.
namespace stepcast::planner {

// The number of plans per round. A constant, so that pruning does not depend on the number of
// threads.
inline constexpr std::size_t kRound = 16;

using Finding = tl::expected<void, std::string>;

// The aim of a search. kGoal: plans that meet the goal. kNearest: the plans nearest to the goal, if
// nothing fits.
enum class Want : std::uint8_t { kGoal, kNearest };

class Searcher {
 public:
  Searcher(Answers& answers, const Goal& goal, const SearchOptions& options,
           const SearchResult* known)
      : answers_(answers), goal_(goal), options_(options), known_(known) {}

  tl::expected<SearchResult, std::string> Run();

 private:
  bool Enough() {
    return enough_ = enough_ || answers_.stopped() || (options_.enough && options_.enough());
  }

  void Report(std::int64_t open = -1) {
    if (!options_.progress) return;
    const auto families = static_cast<std::int64_t>(result_.states.families().size());
    const auto simulated = static_cast<std::int64_t>(result_.outcomes.size());
    options_.progress({families, families, simulated, result_.sharpened + simulated, open});
  }

  // Marks all plans as open, then screens and simulates the scenario's own plan, if the search
  // includes it.
  Finding Begin();

  Finding Screen();

  // Records the first evaluation of a plan, or of a family that has `plans` plans.
  void Take(const Screened& screened, std::int64_t plans, PlanState& state);

  // Creates a separate state for each plan of these families. `firsts` contains the first plan of
  // each family.
  Finding Expand(const std::vector<std::int64_t>& firsts);

  // Sets the plan's verdict if its bound determines it.
  void Judge(PlanState& state, const PlanFacts& facts) {
    const Bound& bound = state.bound;
    if (!FitsWith(goal_, facts, bound.fits, bound.fits_host, bound.over)) {
      End(state, Verdict::kDoesNotFit);
    } else if (!MeetsDeadline(goal_, facts, bound.step_time)) {
      End(state, Verdict::kTooSlow);
    }
  }
  void Judge(std::int64_t plan) { Judge(StateOf(plan), FactsOf(plan)); }

  static void End(PlanState& state, Verdict verdict) {
    state.pending = false;
    state.verdict = verdict;
  }
  void End(std::int64_t plan, Verdict verdict) { End(StateOf(plan), verdict); }

  PlanState& StateOf(std::int64_t plan) { return result_.states.Of(plan); }
  const PlanState& StateOf(std::int64_t plan) const { return result_.states.Of(plan); }
  const PlanFacts& FactsOf(std::int64_t plan) const { return result_.states.FactsOf(plan); }

  // `evaluated`: the plan's Bound or Outcome.
  template <typename Evaluated>
  Score ScoreOf(std::int64_t plan, const Evaluated& evaluated) const {
    Score score = planner::ScoreOf(goal_, FactsOf(plan), plan, evaluated.step_time,
                                   evaluated.memory, evaluated.joules);
    score.behind = !IsSafe(evaluated);
    return score;
  }
  Score ScoreOfBound(std::int64_t plan, Want want) const;
  Point PointOfBound(std::int64_t plan) const {
    const Bound& bound = StateOf(plan).bound;
    const PlanFacts& facts = FactsOf(plan);
    return {TimePerTokenOf(facts, bound.step_time), bound.memory.count(), facts.gpus, plan};
  }

  bool Feasible(std::int64_t plan, const Outcome& outcome) const {
    return Eligible(goal_, FactsOf(plan), outcome);
  }

  // Stores a plan's outcome for all plans that have the same program.
  void Share(std::int64_t plan, const Outcome& outcome) {
    const auto program = result_.programs.find(plan);
    if (program != result_.programs.end()) by_program_.emplace(program->second, outcome);
  }
  const Outcome* SharedOutcome(std::int64_t plan) const {
    const auto program = result_.programs.find(plan);
    if (program == result_.programs.end()) return nullptr;
    const auto outcome = by_program_.find(program->second);
    return outcome == by_program_.end() ? nullptr : &outcome->second;
  }

  // The results of the next evaluation stage for a round's plans: sharper bounds, then forecasts.
  struct Stage {
    std::vector<Screened> sharper;
    std::vector<Outcome> outcomes;
  };
  tl::expected<Stage, std::string> WorkOut(const std::vector<std::int64_t>& round);

  void TakeSharper(std::int64_t plan, Screened& screened) {
    StateOf(plan).sharp = true;
    ++result_.sharpened;
    if (!screened.illegal_code.empty()) return;
    StateOf(plan).bound = screened.bound;
    if (!screened.program.empty()) result_.programs[plan] = std::move(screened.program);
  }

  // Advances each plan of a round to its next stage: from bound to sharper bound, or from sharper
  // bound to forecast.
  Finding Advance(const std::vector<std::int64_t>& round);

  // Records a plan's forecast, and ranks the plan if it is eligible.
  void TakeOutcome(std::int64_t plan, Outcome outcome);
  void TakeOverBound(std::int64_t plan, const Outcome& outcome);

  // The best plans among those simulated so far.
  struct Ranking {
    std::vector<std::int64_t> best;
    // The score that another plan must beat to change the ranking. Null: any plan changes the
    // ranking, because fewer plans are ranked than requested.
    const Score* last = nullptr;
  };
  Ranking Rank() const;

  // Returns the first plan in `best` that ties with `plan` and has the same kind, or -1. `plan`
  // must be ranked after all plans in `best`.
  std::int64_t Leader(const std::vector<std::int64_t>& best, std::int64_t plan) const;

  std::map<std::int64_t, std::vector<std::int64_t>> TiesOf(
      const std::vector<std::int64_t>& best) const;

  // Splits the families of a round into plans, and advances the other plans of the round to their
  // next stage. `again` receives the plans that are still pending.
  template <typename Again>
  Finding WorkOn(const std::vector<std::int64_t>& round, const Again& again) {
    std::vector<std::int64_t> families, plans;
    for (const std::int64_t plan : round) {
      (result_.states.Together(plan) ? families : plans).push_back(plan);
    }
    STEPCAST_TRY(Expand(families));
    for (const std::int64_t first : families) {
      const PlanStates::Family& family = result_.states.FamilyOf(first);
      for (std::size_t i = 0; i < family.members.size(); ++i) {
        if (family.members[i].pending) again(first + static_cast<std::int64_t>(i));
      }
    }
    if (plans.empty()) return {};
    STEPCAST_TRY(Advance(plans));
    for (const std::int64_t plan : plans) {
      if (StateOf(plan).pending) Judge(plan);
      if (StateOf(plan).pending) again(plan);
    }
    return {};
  }

  using Queue = std::priority_queue<Score, std::vector<Score>, std::greater<>>;

  // Returns the pending plans and families.
  Queue Pending() const;

  // Searches best-first: evaluates the plans with the best bounds until no bound is better than
  // Ranking::last, for at most `rounds` rounds.
  Finding FindBest(int rounds = std::numeric_limits<int>::max()) {
    return Enough() ? Finding() : FindBestIn(Pending(), rounds);
  }
  Finding FindBestIn(Queue queue, int rounds);

  // Finds good plans before the best-first search: in all groups if the search may be ended early,
  // otherwise only in the most promising group.
  Finding FindGoodOnes();

  // Finds a plan whose forecast fits: first among plans whose forecasts take little time, then
  // among all plans.
  Finding FindFirst();

  // Tries the most promising plans with at most `most_passes` passes. Plans need more memory than
  // their bounds, so the bounds must leave a fraction of the device's memory free. The fraction
  // grows with each attempt.
  Finding FindFirstAmong(std::int64_t most_passes);

  // Like FindFirst, but for each group. Tries only a few plans whose forecasts take little time. A
  // search that ends early can then compare most groups.
  Finding FindFirstOfGroups();

  // Forecasts the first `most` plans of the queue that may fit and have at most `most_passes`
  // passes. Returns false if no plan in the queue meets these conditions, or if the search was
  // stopped.
  tl::expected<bool, std::string> Forecast(Queue& queue, int most, std::int64_t most_passes);

  // Searches group by group. The estimate of a plan's forecast is the plan's bound times the
  // smallest ratio of forecast to bound in the plan's group so far. The plan with the best estimate
  // is evaluated next. Plans of one kind are evaluated one after another, because they have similar
  // step times. Plans with more passes than `most_passes` are omitted. Ends after `rounds` rounds,
  // or when no bound is better than the best plan.
  Finding FindBestOfKinds(int rounds, std::int64_t most_passes);

  // Returns the group whose next plan has the best estimate. Ignores the groups in `but`. Returns
  // queues.size() if no other group can have a better plan than the best plan so far.
  std::size_t MostPromising(const std::vector<Queue>& queues,
                            const std::set<std::size_t>& but) const;

  // Evaluates the neighbors of the best plan. If a neighbor becomes the best plan, continues with
  // the neighbors of that plan.
  Finding ImproveBest();

  // Evaluates all other plans in the family of plan `of`, in the order of their bounds, for at most
  // `rounds` rounds.
  Finding FindBestOfFamily(std::int64_t of, int rounds);

  // Returns the score that orders plans within a group. Plans whose bounds leave less than the
  // fraction `room` of the device's memory free come last, because they often do not fit. If `room`
  // is zero, plans are in the order of their bounds.
  Score InGroup(std::int64_t plan, double room) const;

  // Returns the pending plans of each group, indexed by group.
  std::vector<Queue> PendingOfGroups(
      double room, std::int64_t most_passes = std::numeric_limits<std::int64_t>::max());

  // The number of plans of a group that are evaluated at the same time.
  static constexpr std::size_t kFew = 4;

  // Advances the plans that have the best bounds of their group to their next stage. Returns false
  // if the queue is empty.
  tl::expected<bool, std::string> WorkOnGroup(Queue& queue, double room);

  // Tries to find an acceptable plan in each of the `groups` most promising groups with a few
  // evaluations. The search tries plans whose bounds leave a tenth of the device's memory free, and
  // then plans whose bounds leave more memory free.
  Finding FindSomeOfGroups(std::size_t groups);

  // Finds the best plan of each group, up to the reported precision. Groups that are clearly worse
  // are not evaluated further.
  Finding FindBestOfGroups();

  // Sets the nearest plan of each group that has no acceptable plan.
  void SayWhatComesNearest();

  // Finds the Pareto front: evaluates each plan whose bound no simulated plan dominates, starting
  // with the plans that may dominate the most other plans. If the best plan is safe, the front has
  // only safe plans.
  Finding FindFront();

  // Among the plans that may be faster than the best plan but may not fit, finds the plan with the
  // best bound, for the answer.
  Finding FindRisky();

  // After an early stop: sets the number of open plans, and the fraction by which open plans may be
  // better than the best plan.
  void SayWhatIsOpen();

  // Sets the verdicts of plans whose bounds are not good enough: kBound if the best plan excludes
  // them, kDominated if another plan excludes them.
  void NameTheRest();

  // Finds the plans nearest to the goal. Used if no plan fits, or if no plan that fits is fast
  // enough. Plans that fit count as nearer than plans that do not fit.
  Finding FindNearest();

  Finding NearestToFit();

  // Replaces the families in a round by their plans, which are added to the queue.
  Finding ExpandNearest(std::vector<std::int64_t>& round, Queue& queue);

  Score Lack(std::int64_t plan, const Outcome& outcome) const;

  Answers& answers_;
  const Goal& goal_;
  const SearchOptions& options_;
  const SearchResult* known_;
  SearchResult result_;
  std::map<std::string, Outcome> by_program_;
  std::set<Score> ranked_;  // scores of the simulated plans that are eligible
  bool enough_ = false;     // the search must end
  bool all_bounded_ = true;
  struct Group {
    std::int64_t plans = 0;  // number of plans that may be legal
    std::set<Score> ranked;
    double over_bound = 0;  // smallest ratio of a forecast to its bound; 0: no forecast yet
  };
  std::vector<Group> groups_;
  // The front of safe plans and the front of unsafe plans.
  std::array<std::vector<Point>, 2> fronts_;
};

}  // namespace stepcast::planner
