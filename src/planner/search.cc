#include "src/planner/search.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/planner/searcher.h"
#include "src/planner/worker_pool.h"

namespace stepcast::planner {

tl::expected<SearchResult, std::string> Searcher::Run() {
  if (known_ == nullptr) {
    groups_.resize(static_cast<std::size_t>(options_.groups));
    STEPCAST_TRY(Begin());
    STEPCAST_TRY(Screen());
  } else {
    result_.states = known_->states;
    result_.illegal = known_->illegal;
    result_.programs = known_->programs;
    for (const auto& [plan, outcome] : known_->outcomes) Share(plan, outcome);
  }
  result_.states.ForEach(
      [&](std::int64_t plan, std::int64_t, PlanState& state, const PlanFacts& facts) {
        if (state.verdict == Verdict::kOpen) return;
        const bool among = !options_.among || options_.among(plan);
        if (state.verdict == Verdict::kSimulated) {
          if (known_ != nullptr && among) TakeOutcome(plan, known_->outcomes.at(plan));
          return;
        }
        if (!among) {
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
  SayWhatComesNearest();
  return std::move(result_);
}

Finding Searcher::Begin() {
  const SearchProblem& problem = answers_.problem();
  result_.states = PlanStates(problem.plans, problem.families);
  for (std::size_t i = 0; i < result_.states.families().size(); ++i) {
    result_.states.At(i).whole.verdict = Verdict::kOpen;
    result_.states.At(i).whole.pending = false;
  }
  if (options_.own < 0) return {};
  PlanStates::Family& family = result_.states.At(result_.states.IndexOf(options_.own));
  STEPCAST_CHECK(family.plans == 1, "the plan of the scenario must form a separate family");
  // The worker pool would refuse the plan after the time limit.
  const Screened own = problem.screen(options_.own);
  Take(own, 1, family.whole);
  family.facts = own.facts;
  if (!family.whole.pending) return {};
  family.whole.sharp = true;  // no bound spares its forecast
  if (!options_.own_outcome) return Advance({options_.own});
  TakeOutcome(options_.own, *options_.own_outcome);
  return {};
}

Finding Searcher::Screen() {
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

void Searcher::Take(const Screened& screened, std::int64_t plans, PlanState& state) {
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

Finding Searcher::Expand(const std::vector<std::int64_t>& firsts) {
  std::vector<std::int64_t> families;
  for (const std::int64_t first : firsts) {
    families.push_back(static_cast<std::int64_t>(result_.states.IndexOf(first)));
  }
  STEPCAST_TAKE(auto members, answers_.ScreenMembers(families));
  if (answers_.stopped()) return {};
  for (std::size_t i = 0; i < families.size(); ++i) {
    PlanStates::Family& family = result_.states.At(static_cast<std::size_t>(families[i]));
    family.members.resize(members[i].size());
    for (std::size_t m = 0; m < family.members.size(); ++m) {
      PlanState& state = family.members[m];
      Take(members[i][m], 1, state);
      if (state.pending) Judge(state, family.facts);
    }
  }
  return {};
}

Score Searcher::ScoreOfBound(std::int64_t plan, Want want) const {
  const Bound& bound = StateOf(plan).bound;
  if (want == Want::kGoal) return ScoreOf(plan, bound);
  const Bytes lacks = bound.over + HeadroomOf(goal_, FactsOf(plan));
  return {.first = static_cast<double>(lacks.count()),
          .time_per_token = TimePerTokenOf(FactsOf(plan), bound.step_time),
          .memory = bound.memory.count(),
          .plan = plan};
}

tl::expected<Searcher::Stage, std::string> Searcher::WorkOut(
    const std::vector<std::int64_t>& round) {
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
  STEPCAST_TAKE(auto sharper, answers_.Sharpen(to_sharpen));
  STEPCAST_TAKE(auto outcomes, answers_.Simulate(to_simulate));
  if (answers_.stopped()) return stage;
  for (std::size_t i = 0; i < to_simulate.size(); ++i) Share(to_simulate[i], outcomes[i]);
  std::size_t sharpened = 0, simulated = 0;
  for (std::size_t i = 0; i < round.size(); ++i) {
    const std::int64_t plan = round[i];
    if (sharpened < to_sharpen.size() && to_sharpen[sharpened] == plan) {
      stage.sharper[i] = std::move(sharper[sharpened++]);
    } else if (simulated < to_simulate.size() && to_simulate[simulated] == plan) {
      stage.outcomes[i] = std::move(outcomes[simulated++]);
    } else if (known_ != nullptr && known_->outcomes.contains(plan)) {
      stage.outcomes[i] = known_->outcomes.at(plan);
    } else {
      stage.outcomes[i] = *SharedOutcome(plan);
      ++result_.shared;
    }
  }
  return stage;
}

Finding Searcher::Advance(const std::vector<std::int64_t>& round) {
  STEPCAST_TAKE(auto stage, WorkOut(round));
  if (answers_.stopped()) return {};
  for (std::size_t i = 0; i < round.size(); ++i) {
    const std::int64_t plan = round[i];
    if (!StateOf(plan).sharp) {
      Screened& sharper = stage.sharper[i];
      TakeSharper(plan, sharper);
      if (!sharper.illegal_code.empty()) {
        result_.illegal[sharper.illegal_code].Add(sharper.illegal_message, sharper.illegal_hint, 1);
        End(plan, Verdict::kIllegal);
      }
      continue;
    }
    TakeOutcome(plan, std::move(stage.outcomes[i]));
  }
  Report();
  return {};
}

void Searcher::TakeOutcome(std::int64_t plan, Outcome outcome) {
  End(plan, Verdict::kSimulated);
  TakeOverBound(plan, outcome);
  if (Feasible(plan, outcome)) {
    const Score score = ScoreOf(plan, outcome);
    ranked_.insert(score);
    if (!groups_.empty()) {
      groups_[static_cast<std::size_t>(options_.group(plan))].ranked.insert(score);
    }
    const PlanFacts& facts = FactsOf(plan);
    AddToFront({TimePerTokenOf(facts, outcome.step_time), outcome.memory.count(), facts.gpus, plan},
               fronts_[score.behind ? 1 : 0]);
  }
  result_.outcomes.emplace(plan, std::move(outcome));
}

void Searcher::TakeOverBound(std::int64_t plan, const Outcome& outcome) {
  const Time bound = StateOf(plan).bound.step_time;
  if (groups_.empty() || !outcome.illegal_message.empty() || bound <= Time()) return;
  double& least = groups_[static_cast<std::size_t>(options_.group(plan))].over_bound;
  const double over = outcome.step_time / bound;
  least = least == 0 ? over : std::min(least, over);
}

Searcher::Ranking Searcher::Rank() const {
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

std::int64_t Searcher::Leader(const std::vector<std::int64_t>& best, std::int64_t plan) const {
  if (!options_.kind) return -1;
  for (const std::int64_t other : best) {
    if (Tied(result_.outcomes.at(other), result_.outcomes.at(plan)) &&
        options_.kind(other) == options_.kind(plan)) {
      return other;
    }
  }
  return -1;
}

std::map<std::int64_t, std::vector<std::int64_t>> Searcher::TiesOf(
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

Searcher::Queue Searcher::Pending() const {
  Queue queue;
  result_.states.ForEach(
      [&](std::int64_t plan, std::int64_t, const PlanState& state, const PlanFacts&) {
        if (state.pending) queue.push(ScoreOfBound(plan, Want::kGoal));
      });
  return queue;
}

Finding Searcher::FindBestIn(Queue queue, int rounds) {
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

void Searcher::SayWhatIsOpen() {
  if (!Enough() && all_bounded_) return;
  const Score* const best = ranked_.empty() ? nullptr : &*ranked_.begin();
  double least = best == nullptr ? 0 : 1;
  result_.states.ForEach([&](std::int64_t plan, std::int64_t plans, PlanState& state,
                             const PlanFacts&) {
    const bool unknown = state.verdict == Verdict::kOpen;
    if (!unknown && !state.pending) return;
    const Score score = unknown ? Score() : ScoreOfBound(plan, Want::kGoal);
    if (!unknown && best != nullptr && !(score < *best)) return;
    result_.open += plans;
    if (best != nullptr) {
      least = std::min({least, MeasureOf(score) / MeasureOf(*best),
                        score.time_per_token.picoseconds() / best->time_per_token.picoseconds()});
    }
    End(state, Verdict::kOpen);
  });
  result_.proved = result_.open == 0;
  if (!result_.proved) result_.pareto.clear();
  result_.least = least;
}

void Searcher::NameTheRest() {
  if (ranked_.empty()) return;
  const std::int64_t winner = ranked_.begin()->plan;
  const Outcome& outcome = result_.outcomes.at(winner);
  const Point best{TimePerTokenOf(FactsOf(winner), outcome.step_time), outcome.memory.count(),
                   FactsOf(winner).gpus, winner};
  result_.states.ForEach([&](std::int64_t plan, std::int64_t, PlanState& state, const PlanFacts&) {
    if (!state.pending) return;
    const bool by_winner = !options_.pareto || Dominates(best, PointOfBound(plan));
    End(state, by_winner ? Verdict::kBound : Verdict::kDominated);
  });
}

tl::expected<SearchResult, std::string> Search(Answers& answers, const Goal& goal,
                                               const SearchOptions& options,
                                               const SearchResult* known) {
  STEPCAST_CHECK(options.best >= 1, "at least one plan must be ranked");
  return Searcher(answers, goal, options, known).Run();
}

SearchResult Search(const SearchProblem& problem, const Goal& goal, const SearchOptions& options,
                    const SearchResult* known) {
  const auto pool = MakeThreadPool(WorkOf(problem), options.threads);
  Answers answers(problem, *pool);
  auto result = Search(answers, goal, options, known);
  STEPCAST_CHECK(result.has_value(), "a search that uses one process and no store must not fail");
  return *std::move(result);
}

}  // namespace stepcast::planner
