#include "src/planner/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "src/base/check.h"
#include "src/planner/score.h"
#include "src/planner/worker_pool.h"

namespace stepcast::planner {
namespace {

// Number of plans per round. It is fixed, so that pruning does not depend on the threads.
constexpr std::size_t kRound = 16;

using Finding = tl::expected<void, std::string>;

// The aim of a search: plans that meet the goal or, if nothing fits, those that lack least.
enum class Want : std::uint8_t { kGoal, kNearest };

class Searcher {
 public:
  Searcher(Answers& answers, const Goal& goal, const SearchOptions& options,
           const SearchResult* known)
      : answers_(answers), goal_(goal), options_(options), known_(known) {}

  tl::expected<SearchResult, std::string> Run() {
    if (known_ == nullptr) {
      groups_.resize(static_cast<std::size_t>(options_.groups));
      if (auto begun = Begin(); !begun) return tl::unexpected(begun.error());
      if (auto screened = Screen(); !screened) return tl::unexpected(screened.error());
    } else {
      result_.states = known_->states;
      result_.illegal = known_->illegal;
      result_.programs = known_->programs;
      for (const auto& [plan, outcome] : known_->outcomes) Share(plan, outcome);
    }
    result_.states.ForEach(
        [&](std::int64_t plan, std::int64_t, PlanState& state, const PlanFacts& facts) {
          if (state.verdict == Verdict::kOpen || plan == options_.own) return;
          if (options_.among && !options_.among(plan)) {
            state.pending = false;
            return;
          }
          state.pending = state.verdict != Verdict::kIllegal && state.verdict != Verdict::kSame;
          if (state.pending) state.verdict = Verdict::kBound;
          if (state.pending) Judge(state, facts);
        });
    Finding found = FindGoodOnes();
    if (found) found = FindSomeOfGroups(groups_.size());
    if (found) found = FindBest();
    if (found) found = FindBestOfGroups();
    if (found && options_.pareto && !ranked_.empty()) found = FindFront();
    if (found) found = FindRisky();
    if (!found) return tl::unexpected(found.error());
    SayWhatIsOpen();
    NameTheRest();
    const Ranking ranking = Rank();
    result_.best = ranking.best;
    result_.ties = TiesOf(ranking.best);
    if (ranked_.empty() && !Enough()) found = FindNearest();
    if (!found) return tl::unexpected(found.error());
    return std::move(result_);
  }

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

  // Initialises all states; plans that are not screened are open. Screens and simulates the
  // scenario's own plan.
  Finding Begin() {
    const SearchProblem& problem = answers_.problem();
    result_.states = PlanStates(problem.plans, problem.families);
    for (std::size_t i = 0; i < result_.states.families().size(); ++i) {
      result_.states.At(i).whole.verdict = Verdict::kOpen;
      result_.states.At(i).whole.pending = false;
    }
    if (options_.own < 0) return {};
    const auto at = static_cast<std::int64_t>(result_.states.IndexOf(options_.own));
    PlanStates::Family& family = result_.states.At(static_cast<std::size_t>(at));
    STEPCAST_CHECK(family.plans == 1, "the own plan is a family by itself");
    const auto screened = answers_.ScreenMembers({at});
    if (!screened) return tl::unexpected(screened.error());
    if (answers_.stopped()) return {};
    const Screened& own = screened->front().front();
    Take(own, 1, family.whole);
    family.facts = own.facts;
    if (!family.whole.pending) return {};
    family.whole.sharp = true;  // no bound spares its forecast
    return Advance({options_.own});
  }

  Finding Screen() {
    std::int64_t done = 0;
    const auto all = static_cast<std::int64_t>(result_.states.families().size());
    return answers_.Screen([&](std::int64_t family, Screened screened) {
      PlanStates::Family& states = result_.states.At(static_cast<std::size_t>(family));
      if (states.first != options_.own) {
        Take(screened, states.plans, states.whole);
        states.facts = screened.facts;
      }
      constexpr std::int64_t kPause = 64;
      if (++done % kPause == 0 && options_.progress) {
        options_.progress({.screened = done, .families = all});
      }
      if (options_.bounded_enough && options_.bounded_enough()) all_bounded_ = false;
      return !Enough() && all_bounded_;
    });
  }

  // Records the first evaluation of one plan, or of `plans` plans at once.
  void Take(const Screened& screened, std::int64_t plans, PlanState& state) {
    state.verdict = Verdict::kBound;
    state.bound = screened.bound;
    if (screened.same_as_another) state.verdict = Verdict::kSame;
    if (!screened.illegal_code.empty()) {
      state.verdict = Verdict::kIllegal;
      result_.illegal[screened.illegal_code].Add(screened.illegal_message, screened.illegal_hint,
                                                 plans);
    }
    state.pending = state.verdict == Verdict::kBound;
  }

  // From here on, each plan of these families has a state of its own. A family is given by its
  // first plan.
  Finding Expand(const std::vector<std::int64_t>& firsts) {
    std::vector<std::int64_t> families;
    for (const std::int64_t first : firsts) {
      families.push_back(static_cast<std::int64_t>(result_.states.IndexOf(first)));
    }
    auto members = answers_.ScreenMembers(families);
    if (!members) return tl::unexpected(members.error());
    if (answers_.stopped()) return {};
    for (std::size_t i = 0; i < families.size(); ++i) {
      PlanStates::Family& family = result_.states.At(static_cast<std::size_t>(families[i]));
      family.members.resize((*members)[i].size());
      for (std::size_t m = 0; m < family.members.size(); ++m) {
        PlanState& state = family.members[m];
        Take((*members)[i][m], 1, state);
        if (state.pending) Judge(state, family.facts);
      }
    }
    return {};
  }

  // Sets the plan's verdict as far as its bound determines it.
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

  Score ScoreOf(std::int64_t plan, Time step_time, Bytes memory) const {
    return planner::ScoreOf(goal_, FactsOf(plan), plan, step_time, memory);
  }
  Score ScoreOfBound(std::int64_t plan, Want want) const {
    const Bound& bound = StateOf(plan).bound;
    if (want == Want::kGoal) {
      Score score = ScoreOf(plan, bound.step_time, bound.memory);
      score.behind = !IsSafe(bound);
      return score;
    }
    const Bytes lacks = bound.over + HeadroomOf(goal_, FactsOf(plan));
    return {.first = static_cast<double>(lacks.count()),
            .time_per_token = TimePerTokenOf(FactsOf(plan), bound.step_time),
            .memory = bound.memory.count(),
            .plan = plan};
  }
  Point PointOfBound(std::int64_t plan) const {
    const Bound& bound = StateOf(plan).bound;
    const PlanFacts& facts = FactsOf(plan);
    return {TimePerTokenOf(facts, bound.step_time), bound.memory.count(), facts.gpus, plan};
  }

  bool Feasible(std::int64_t plan, const Outcome& outcome) const {
    return Eligible(goal_, FactsOf(plan), outcome);
  }

  // Gives a plan's outcome to the plans that have the same program.
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

  // Results of the next stage for the plans of a round: sharper bounds, or after that forecasts.
  struct Stage {
    std::vector<Screened> sharper;
    std::vector<Outcome> outcomes;
  };
  tl::expected<Stage, std::string> WorkOut(const std::vector<std::int64_t>& round) {
    Stage stage{std::vector<Screened>(round.size()), std::vector<Outcome>(round.size())};
    std::vector<std::int64_t> to_sharpen, to_simulate;
    std::set<std::string> programs;  // of those to simulate
    for (const std::int64_t plan : round) {
      if (!StateOf(plan).sharp) {
        to_sharpen.push_back(plan);
      } else if (known_ == nullptr || !known_->outcomes.contains(plan)) {
        const auto program = result_.programs.find(plan);
        const bool own = program == result_.programs.end();
        if (SharedOutcome(plan) == nullptr && (own || programs.insert(program->second).second)) {
          to_simulate.push_back(plan);
        }
      }
    }
    auto sharper = answers_.Sharpen(to_sharpen);
    if (!sharper) return tl::unexpected(sharper.error());
    auto outcomes = answers_.Simulate(to_simulate);
    if (!outcomes) return tl::unexpected(outcomes.error());
    if (answers_.stopped()) return stage;
    for (std::size_t i = 0; i < to_simulate.size(); ++i) Share(to_simulate[i], (*outcomes)[i]);
    std::size_t sharpened = 0, simulated = 0;
    for (std::size_t i = 0; i < round.size(); ++i) {
      const std::int64_t plan = round[i];
      if (sharpened < to_sharpen.size() && to_sharpen[sharpened] == plan) {
        stage.sharper[i] = std::move((*sharper)[sharpened++]);
      } else if (simulated < to_simulate.size() && to_simulate[simulated] == plan) {
        stage.outcomes[i] = std::move((*outcomes)[simulated++]);
      } else if (known_ != nullptr && known_->outcomes.contains(plan)) {
        stage.outcomes[i] = known_->outcomes.at(plan);
      } else {
        stage.outcomes[i] = *SharedOutcome(plan);
        ++result_.shared;
      }
    }
    return stage;
  }

  void TakeSharper(std::int64_t plan, Screened& screened) {
    StateOf(plan).sharp = true;
    ++result_.sharpened;
    if (!screened.illegal_code.empty()) return;
    StateOf(plan).bound = screened.bound;
    if (!screened.program.empty()) result_.programs[plan] = std::move(screened.program);
  }

  // Takes each plan of a round one stage further: bound, sharper bound, forecast.
  Finding Advance(const std::vector<std::int64_t>& round) {
    auto stage = WorkOut(round);
    if (!stage) return tl::unexpected(stage.error());
    if (answers_.stopped()) return {};
    for (std::size_t i = 0; i < round.size(); ++i) {
      const std::int64_t plan = round[i];
      if (!StateOf(plan).sharp) {
        Screened& sharper = stage->sharper[i];
        TakeSharper(plan, sharper);
        if (!sharper.illegal_code.empty()) {
          result_.illegal[sharper.illegal_code].Add(sharper.illegal_message, sharper.illegal_hint,
                                                    1);
          End(plan, Verdict::kIllegal);
        }
        continue;
      }
      End(plan, Verdict::kSimulated);
      Outcome& outcome = stage->outcomes[i];
      TakeOverBound(plan, outcome);
      if (Feasible(plan, outcome)) {
        Score score = ScoreOf(plan, outcome.step_time, outcome.memory);
        score.behind = !IsSafe(outcome);
        ranked_.insert(score);
        if (!groups_.empty()) {
          groups_[static_cast<std::size_t>(options_.group(plan))].ranked.insert(score);
        }
        const PlanFacts& facts = FactsOf(plan);
        AddToFront(
            {TimePerTokenOf(facts, outcome.step_time), outcome.memory.count(), facts.gpus, plan},
            fronts_[score.behind ? 1 : 0]);
      }
      result_.outcomes.emplace(plan, std::move(outcome));
    }
    Report();
    return {};
  }

  void TakeOverBound(std::int64_t plan, const Outcome& outcome) {
    const Time bound = StateOf(plan).bound.step_time;
    if (groups_.empty() || !outcome.illegal_message.empty() || bound <= Time()) return;
    double& least = groups_[static_cast<std::size_t>(options_.group(plan))].over_bound;
    const double over = outcome.step_time / bound;
    least = least == 0 ? over : std::min(least, over);
  }

  // The best plans among those simulated so far.
  struct Ranking {
    std::vector<std::int64_t> best;
    // The last of the best; a plan that is not better changes nothing. Null: any plan may change
    // the ranking.
    const Score* last = nullptr;
  };
  Ranking Rank() const {
    Ranking ranking;
    const auto most = static_cast<std::size_t>(std::max(options_.best, kMostRanked));
    std::size_t looked_at = 0;
    const auto best = static_cast<std::size_t>(options_.best);
    const std::size_t exact = options_.exact > 0 ? static_cast<std::size_t>(options_.exact) : best;
    for (const Score& score : ranked_) {
      if (Leader(ranking.best, score.plan) < 0) ranking.best.push_back(score.plan);
      const bool enough = ranking.best.size() == best || ++looked_at == most;
      if (ranking.last == nullptr && (enough || ranking.best.size() == exact)) {
        ranking.last = &score;
      }
      if (enough) break;
    }
    return ranking;
  }

  // The first of these plans that is of the same kind and has a tied outcome; -1 if there is none.
  // `plan` is ranked after them.
  std::int64_t Leader(const std::vector<std::int64_t>& best, std::int64_t plan) const {
    if (!options_.kind) return -1;
    for (const std::int64_t other : best) {
      if (Tied(result_.outcomes.at(other), result_.outcomes.at(plan)) &&
          options_.kind(other) == options_.kind(plan)) {
        return other;
      }
    }
    return -1;
  }

  std::map<std::int64_t, std::vector<std::int64_t>> TiesOf(
      const std::vector<std::int64_t>& best) const {
    std::map<std::int64_t, std::vector<std::int64_t>> ties;
    std::size_t ranked = 0;  // of the best
    for (const Score& score : ranked_) {
      if (ranked < best.size() && best[ranked] == score.plan) {
        ++ranked;
        continue;
      }
      const std::vector<std::int64_t> before(best.begin(),
                                             best.begin() + static_cast<std::ptrdiff_t>(ranked));
      const std::int64_t leader = Leader(before, score.plan);
      if (leader >= 0) ties[leader].push_back(score.plan);
    }
    for (auto& [leader, plans] : ties) std::sort(plans.begin(), plans.end());
    return ties;
  }

  // Takes the plans of a round one stage further, those of families one by one. `again` receives
  // the plans that are then pending.
  template <typename Again>
  Finding WorkOn(const std::vector<std::int64_t>& round, const Again& again) {
    std::vector<std::int64_t> families, plans;
    for (const std::int64_t plan : round) {
      (result_.states.Together(plan) ? families : plans).push_back(plan);
    }
    if (auto expanded = Expand(families); !expanded) return expanded;
    for (const std::int64_t first : families) {
      const PlanStates::Family& family = result_.states.FamilyOf(first);
      for (std::size_t i = 0; i < family.members.size(); ++i) {
        if (family.members[i].pending) again(first + static_cast<std::int64_t>(i));
      }
    }
    if (plans.empty()) return {};
    if (auto advanced = Advance(plans); !advanced) return advanced;
    for (const std::int64_t plan : plans) {
      if (StateOf(plan).pending) Judge(plan);
      if (StateOf(plan).pending) again(plan);
    }
    return {};
  }

  using Queue = std::priority_queue<Score, std::vector<Score>, std::greater<>>;

  // The pending plans and families.
  Queue Pending() const {
    Queue queue;
    result_.states.ForEach(
        [&](std::int64_t plan, std::int64_t, const PlanState& state, const PlanFacts&) {
          if (state.pending) queue.push(ScoreOfBound(plan, Want::kGoal));
        });
    return queue;
  }

  // Best first: evaluates the plan with the best bound, until no bound is better than the last of
  // the best, or for `rounds` rounds.
  Finding FindBest(int rounds = std::numeric_limits<int>::max()) {
    return Enough() ? Finding() : FindBestIn(Pending(), rounds);
  }
  Finding FindBestIn(Queue queue, int rounds) {
    std::vector<std::int64_t> round;
    while (!queue.empty() && !Enough() && rounds-- > 0) {
      round.clear();
      const Ranking ranking = Rank();
      while (!queue.empty() && round.size() < kFew &&
             (ranking.last == nullptr || queue.top() < *ranking.last)) {
        round.push_back(queue.top().plan);
        queue.pop();
      }
      if (round.empty()) break;
      const auto worked =
          WorkOn(round, [&](std::int64_t plan) { queue.push(ScoreOfBound(plan, Want::kGoal)); });
      if (!worked) return worked;
      Report(static_cast<std::int64_t>(queue.size()));
    }
    return {};
  }

  // Finds a first answer and what comes nearest to the best. A search that may end at any time
  // looks for good answers first. A search that goes on to a proof does not, since it would take
  // more forecasts.
  Finding FindGoodOnes() {
    constexpr int kRounds = 64;
    Finding found;
    if (!options_.anytime || !options_.kind || groups_.empty()) {
      found = FindSomeOfGroups(1);
      if (found) found = FindBest(kRounds);
      return found;
    }
    if (ranked_.empty()) found = FindFirst();
    if (found) found = FindBestOfKinds(kRounds);
    if (found && ranked_.empty()) found = FindSomeOfGroups(1);
    if (found && !ranked_.empty()) found = FindBestOfFamily(ranked_.begin()->plan, kRounds);
    return found;
  }

  // Finds some plan that fits, using forecasts only. It first tries plans whose forecasts take
  // little time, then all plans.
  Finding FindFirst() {
    constexpr std::int64_t kFewPasses = 128;
    for (const std::int64_t most : {kFewPasses, std::numeric_limits<std::int64_t>::max()}) {
      if (auto found = FindFirstAmong(most); !found) return found;
      if (!ranked_.empty()) break;
    }
    return {};
  }

  // Tries the most promising plans with at most `most_passes` passes whose bounds leave more and
  // more of the device free, because bounds of memory may be far below what a plan needs.
  Finding FindFirstAmong(std::int64_t most_passes) {
    constexpr std::size_t kAtOnce = 2;
    constexpr int kRounds = 3;
    for (const double room : {0.5, 0.7, 0.85}) {
      if (Enough()) break;
      Queue queue;
      result_.states.ForEach(
          [&](std::int64_t plan, std::int64_t, const PlanState& state, const PlanFacts& facts) {
            if (!state.pending || facts.passes > most_passes) return;
            const Score score = InGroup(plan, room);
            if (!score.behind) queue.push(score);
          });
      for (int round = 0; round < kRounds && ranked_.empty() && !Enough(); ++round) {
        std::vector<std::int64_t> plans;
        while (!queue.empty() && plans.size() < kAtOnce) {
          const std::int64_t first = queue.top().plan;
          queue.pop();
          if (result_.states.Together(first)) {
            if (auto expanded = Expand({first}); !expanded) return expanded;
            if (answers_.stopped()) return {};
          }
          const PlanStates::Family& family = result_.states.FamilyOf(first);
          for (std::int64_t plan = first; plan < family.first + family.plans; ++plan) {
            if (!StateOf(plan).pending) continue;
            StateOf(plan).sharp = true;  // its forecast, without a sharper bound before
            plans.push_back(plan);
            break;
          }
        }
        if (plans.empty()) break;
        if (auto advanced = Advance(plans); !advanced) return advanced;
      }
      if (!ranked_.empty()) break;
    }
    return {};
  }

  // Looks at one plan of each kind until it has its forecast, and only then at another of the kind,
  // since plans of one kind take about as long. The bounds of some groups are further below their
  // forecasts than those of others. So the next plan is the one that would be the best if its bound
  // were as far below its forecast as the closest bound of its group has been. The search ends
  // after so many rounds, or when no bound is better than the best.
  Finding FindBestOfKinds(int rounds) {
    if (Enough()) return {};
    std::vector<Queue> queues = PendingOfGroups(0);
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

  // The group outside `but` whose next plan may be the best. A forecast is expected to exceed its
  // bound by as much as the closest one of its group did. Returns the number of groups if no group
  // has such a plan.
  std::size_t MostPromising(const std::vector<Queue>& queues,
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

  // Looks at the other plans of the plan's family, which differ little from it, best bound first
  // and for at most so many rounds.
  Finding FindBestOfFamily(std::int64_t of, int rounds) {
    const PlanStates::Family& family = result_.states.FamilyOf(of);
    Queue queue;
    for (std::size_t i = 0; i < family.members.size(); ++i) {
      const std::int64_t plan = family.first + static_cast<std::int64_t>(i);
      if (family.members[i].pending) queue.push(ScoreOfBound(plan, Want::kGoal));
    }
    return FindBestIn(std::move(queue), rounds);
  }

  // The order within a group. Plans whose bounds leave less than `room` of the device free come
  // last, because they often turn out not to fit. With `room` zero, plans are in the order of their
  // bounds.
  Score InGroup(std::int64_t plan, double room) const {
    Score score = ScoreOfBound(plan, Want::kGoal);
    const auto left = static_cast<double>(-StateOf(plan).bound.over.count());
    score.behind |= left < room * static_cast<double>(FactsOf(plan).capacity.count());
    return score;
  }

  // [group] its pending plans.
  std::vector<Queue> PendingOfGroups(double room) {
    std::vector<Queue> queues(groups_.size());
    for (Group& group : groups_) group.plans = 0;
    if (groups_.empty()) return queues;
    result_.states.ForEach(
        [&](std::int64_t plan, std::int64_t plans, const PlanState& state, const PlanFacts&) {
          if (state.verdict == Verdict::kIllegal) return;
          const auto group = static_cast<std::size_t>(options_.group(plan));
          groups_[group].plans += plans;
          if (state.pending) queues[group].push(InGroup(plan, room));
        });
    return queues;
  }

  // The number of plans of a group that are evaluated at once.
  static constexpr std::size_t kFew = 4;

  // Takes the plans with the best bounds of a group one stage further. Returns false if none is
  // left.
  tl::expected<bool, std::string> WorkOnGroup(Queue& queue, double room) {
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

  // Finds an acceptable plan for each of the `groups` most promising groups, if a few evaluations
  // suffice. It tries plans whose bounds leave a tenth of the device free, then plans with more
  // room, because bounds of memory may be far below what a plan needs.
  Finding FindSomeOfGroups(std::size_t groups) {
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
          const auto some = WorkOnGroup(queues[group], room);
          if (!some) return tl::unexpected(some.error());
          if (!*some) break;
        }
      }
      if (groups == 1 && !ranked_.empty()) break;
    }
    return {};
  }

  // Finds the best plan of each group, to within the reported precision: groups that are clearly
  // worse are not examined further.
  Finding FindBestOfGroups() {
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
        const auto some = WorkOnGroup(queues[g], 0);
        if (!some) return tl::unexpected(some.error());
      }
      GroupBest& said = result_.groups[g] = {.plans = groups_[g].plans};
      if (ranked.empty()) continue;
      said.best = ranked.begin()->plan;
      const bool less = !queues[g].empty() && queues[g].top() < *ranked.begin();
      said.least = less ? MeasureOf(queues[g].top()) / MeasureOf(*ranked.begin()) : 1;
    }
    SayWhatComesNearest();
    return {};
  }

  // Sets the nearest plan for groups without an acceptable one.
  void SayWhatComesNearest() {
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
          Score score = ScoreOfBound(plan, Want::kNearest);
          if (said.nearest >= 0 && !(score < nearest[group])) return;
          said.nearest = plan;
          nearest[group] = score;
        });
  }

  // Examines further each plan that no simulated plan dominates by its bound, starting with those
  // that promise to dominate most. The front holds plans of the same safety as the best: unsafe
  // plans come after all others, and if the best is unsafe, no safe plan is left.
  Finding FindFront() {
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

  // Finds the plan with the best bound among those that may be faster than the best but, by their
  // bounds, may not fit. The answer names it.
  Finding FindRisky() {
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

  // Sets, for a search that was stopped early, the number of open plans and how much better than
  // the best one of them may be.
  void SayWhatIsOpen() {
    if (!Enough() && all_bounded_) return;
    const Score* const best = ranked_.empty() ? nullptr : &*ranked_.begin();
    const double time = best == nullptr ? 0 : best->time_per_token.picoseconds();
    double least = time;
    result_.states.ForEach(
        [&](std::int64_t plan, std::int64_t plans, PlanState& state, const PlanFacts&) {
          const bool unknown = state.verdict == Verdict::kOpen;
          if (!unknown && !state.pending) return;
          const Score score = unknown ? Score() : ScoreOfBound(plan, Want::kGoal);
          if (!unknown && best != nullptr && !(score < *best)) return;
          result_.open += plans;
          least = std::min(least, score.time_per_token.picoseconds());
          End(state, Verdict::kOpen);
        });
    result_.proved = result_.open == 0;
    if (!result_.proved) result_.pareto.clear();
    result_.least = time > 0 ? least / time : 0;
  }

  // For plans whose bounds are not good enough: whether the winner or another plan excludes them.
  void NameTheRest() {
    if (ranked_.empty()) return;
    const std::int64_t winner = ranked_.begin()->plan;
    const Outcome& outcome = result_.outcomes.at(winner);
    const Point best{TimePerTokenOf(FactsOf(winner), outcome.step_time), outcome.memory.count(),
                     FactsOf(winner).gpus, winner};
    result_.states.ForEach(
        [&](std::int64_t plan, std::int64_t, PlanState& state, const PlanFacts&) {
          if (!state.pending) return;
          const bool by_winner = !options_.pareto || Dominates(best, PointOfBound(plan));
          End(state, by_winner ? Verdict::kBound : Verdict::kDominated);
        });
  }

  // For a problem in which nothing fits, or nothing that fits is fast enough. The latter plans
  // count as nearer.
  Finding FindNearest() {
    SearchOptions options = options_;
    options.pareto = false;
    options.progress = nullptr;
    if (goal_.training.deadline) {
      Goal patient = goal_;
      patient.training.deadline.reset();
      if (patient.target == Target::kGpus || patient.target == Target::kMemory) {
        patient.target = Target::kStepTime;
      }
      auto without = Search(answers_, patient, options, &result_);
      if (!without) return tl::unexpected(without.error());
      if (!without->best.empty()) {
        result_.nearest = std::move(without->best);
        result_.outcomes.merge(without->outcomes);
        return {};
      }
    }
    return NearestToFit();
  }

  Finding NearestToFit() {
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
      if (auto expanded = ExpandNearest(round, queue); !expanded) return expanded;
      auto stage = WorkOut(round);
      if (!stage) return tl::unexpected(stage.error());
      if (answers_.stopped()) break;
      for (std::size_t i = 0; i < round.size(); ++i) {
        const std::int64_t plan = round[i];
        if (!StateOf(plan).sharp) {
          TakeSharper(plan, stage->sharper[i]);
          if (!stage->sharper[i].illegal_code.empty()) continue;
          queue.push(ScoreOfBound(plan, Want::kNearest));
          continue;
        }
        Outcome& outcome = stage->outcomes[i];
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

  // Replaces the families in a round by their plans, which go to the queue.
  Finding ExpandNearest(std::vector<std::int64_t>& round, Queue& queue) {
    std::vector<std::int64_t> families;
    for (const std::int64_t plan : round) {
      if (result_.states.Together(plan)) families.push_back(plan);
    }
    std::erase_if(round, [&](std::int64_t plan) { return result_.states.Together(plan); });
    if (auto expanded = Expand(families); !expanded) return expanded;
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

  Score Lack(std::int64_t plan, const Outcome& outcome) const {
    const Bytes lacks = outcome.over + HeadroomOf(goal_, FactsOf(plan));
    return {.first = static_cast<double>(lacks.count()),
            .time_per_token = TimePerTokenOf(FactsOf(plan), outcome.step_time),
            .memory = outcome.memory.count(),
            .plan = plan};
  }

  Answers& answers_;
  const Goal& goal_;
  const SearchOptions& options_;
  const SearchResult* known_;
  SearchResult result_;
  std::map<std::string, Outcome> by_program_;
  std::set<Score> ranked_;  // of feasible simulated plans
  bool enough_ = false;     // the search is to end
  bool all_bounded_ = true;
  struct Group {
    std::int64_t plans = 0;  // that may exist
    std::set<Score> ranked;
    double over_bound = 0;  // the least ratio of a forecast to its bound; 0: none yet
  };
  std::vector<Group> groups_;
  // The fronts of safe and of unsafe plans.
  std::array<std::vector<Point>, 2> fronts_;
};

}  // namespace

tl::expected<SearchResult, std::string> Search(Answers& answers, const Goal& goal,
                                               const SearchOptions& options,
                                               const SearchResult* known) {
  STEPCAST_CHECK(options.best >= 1, "at least one plan is ranked");
  return Searcher(answers, goal, options, known).Run();
}

SearchResult Search(const SearchProblem& problem, const Goal& goal, const SearchOptions& options,
                    const SearchResult* known) {
  const auto pool = MakeThreadPool(WorkOf(problem), options.threads);
  Answers answers(problem, *pool);
  auto result = Search(answers, goal, options, known);
  STEPCAST_CHECK(result.has_value(), "threads and no store have nothing to fail at");
  return *std::move(result);
}

}  // namespace stepcast::planner
