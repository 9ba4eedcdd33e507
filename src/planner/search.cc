#include "src/planner/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "src/base/check.h"
#include "src/planner/score.h"
#include "src/planner/worker_pool.h"

namespace stepcast::planner {
namespace {

// How many plans are worked on between two looks at what was found: fixed, so that what is pruned
// does not depend on the threads.
constexpr std::size_t kRound = 16;

using Finding = tl::expected<void, std::string>;

// Also if devices had more memory than they have, and what must stay free did.
bool FitsWith(const Goal& goal, const PlanFacts& facts, bool fits, bool fits_host, Bytes over) {
  const Bytes spare(std::llround(goal.spare_memory * static_cast<double>(facts.capacity.count())));
  if (!fits && !(fits_host && over <= spare)) return false;
  return over + HeadroomOf(goal, facts) <= std::max(spare, Bytes(0));
}

bool MeetsDeadline(const Goal& goal, const PlanFacts& facts, Time step_time) {
  return !goal.deadline || TrainingSeconds(goal, facts, step_time) <= goal.deadline->seconds();
}

// What a search is after when nothing fits: the plans that lack least.
enum class Want : std::uint8_t { kGoal, kNearest };

class Searcher {
 public:
  Searcher(Answers& answers, const Goal& goal, const SearchOptions& options,
           const SearchResult* known)
      : answers_(answers), goal_(goal), options_(options), known_(known) {}

  tl::expected<SearchResult, std::string> Run() {
    if (known_ == nullptr) {
      if (auto screened = Screen(); !screened) return tl::unexpected(screened.error());
    } else {
      result_.verdicts = known_->verdicts;
      result_.facts = known_->facts;
      result_.bounds = known_->bounds;
      result_.sharp = known_->sharp;
      result_.illegal = known_->illegal;
      result_.programs = known_->programs;
      for (const auto& [plan, outcome] : known_->outcomes) Share(plan, outcome);
    }
    pending_.assign(result_.verdicts.size(), true);
    for (std::int64_t plan = 0; plan < answers_.plans(); ++plan) {
      if (LeftOut(plan)) pending_[At(plan)] = false;
      if (pending_[At(plan)]) Judge(plan);
    }
    Finding found = FindBest();
    if (found && options_.pareto && !ranked_.empty()) found = FindFront();
    if (!found) return tl::unexpected(found.error());
    NameTheRest();
    const Ranking ranking = Rank();
    result_.best = ranking.best;
    result_.ties = TiesOf(ranking.best);
    if (ranked_.empty()) found = FindNearest();
    if (!found) return tl::unexpected(found.error());
    return std::move(result_);
  }

 private:
  std::size_t At(std::int64_t plan) const { return static_cast<std::size_t>(plan); }

  bool LeftOut(std::int64_t plan) const {
    const Verdict verdict = result_.verdicts[At(plan)];
    return verdict == Verdict::kIllegal || verdict == Verdict::kSame;
  }

  void Report() {
    if (!options_.progress) return;
    options_.progress(answers_.plans(), static_cast<std::int64_t>(result_.outcomes.size()));
  }

  Finding Screen() {
    const auto plans = static_cast<std::size_t>(answers_.plans());
    result_.verdicts.assign(plans, Verdict::kBound);
    result_.facts.resize(plans);
    result_.bounds.resize(plans);
    result_.sharp.assign(plans, false);
    std::int64_t done = 0;
    return answers_.Screen([&](std::int64_t plan, Screened screened) {
      result_.facts[At(plan)] = screened.facts;
      result_.bounds[At(plan)] = screened.bound;
      if (screened.same_as_another) result_.verdicts[At(plan)] = Verdict::kSame;
      if (!screened.illegal_code.empty()) {
        result_.verdicts[At(plan)] = Verdict::kIllegal;
        result_.illegal[screened.illegal_code].Add(screened.illegal_message);
      }
      constexpr std::int64_t kPause = 64;
      if (++done % kPause == 0 && options_.progress) options_.progress(done, 0);
    });
  }

  bool MayFit(const Bound& bound, const PlanFacts& facts) const {
    return FitsWith(goal_, facts, bound.fits, bound.fits_host, bound.over);
  }

  // What the plan's bound says of it alone.
  void Judge(std::int64_t plan) {
    const Bound& bound = result_.bounds[At(plan)];
    const PlanFacts& facts = result_.facts[At(plan)];
    if (!MayFit(bound, facts)) {
      End(plan, Verdict::kDoesNotFit);
    } else if (!MeetsDeadline(goal_, facts, bound.step_time)) {
      End(plan, Verdict::kTooSlow);
    }
  }

  void End(std::int64_t plan, Verdict verdict) {
    pending_[At(plan)] = false;
    result_.verdicts[At(plan)] = verdict;
  }

  Score ScoreOf(std::int64_t plan, Time step_time, Bytes memory) const {
    return planner::ScoreOf(goal_, result_.facts[At(plan)], plan, step_time, memory);
  }
  Score ScoreOfBound(std::int64_t plan, Want want) const {
    const Bound& bound = result_.bounds[At(plan)];
    if (want == Want::kGoal) return ScoreOf(plan, bound.step_time, bound.memory);
    const Bytes lacks = bound.over + HeadroomOf(goal_, result_.facts[At(plan)]);
    return {.first = static_cast<double>(lacks.count()),
            .time_per_token = TimePerTokenOf(result_.facts[At(plan)], bound.step_time),
            .memory = bound.memory.count(),
            .plan = plan};
  }
  Point PointOfBound(std::int64_t plan) const {
    const Bound& bound = result_.bounds[At(plan)];
    const PlanFacts& facts = result_.facts[At(plan)];
    return {TimePerTokenOf(facts, bound.step_time), bound.memory.count(), facts.gpus, plan};
  }

  bool Feasible(std::int64_t plan, const Outcome& outcome) const {
    return Eligible(goal_, result_.facts[At(plan)], outcome);
  }

  // Plans of the same program have one outcome.
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

  // What the next stage says of each plan of a round: a sharper bound, or after that a forecast.
  struct Stage {
    std::vector<Screened> sharper;
    std::vector<Outcome> outcomes;
  };
  tl::expected<Stage, std::string> WorkOut(const std::vector<std::int64_t>& round) {
    Stage stage{std::vector<Screened>(round.size()), std::vector<Outcome>(round.size())};
    std::vector<std::int64_t> to_sharpen, to_simulate;
    std::set<std::string> programs;  // of those to simulate
    for (const std::int64_t plan : round) {
      if (!result_.sharp[At(plan)]) {
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
    result_.sharp[At(plan)] = true;
    ++result_.sharpened;
    if (!screened.illegal_code.empty()) return;
    result_.bounds[At(plan)] = screened.bound;
    if (!screened.program.empty()) result_.programs[plan] = std::move(screened.program);
  }

  // Takes each plan of a round one stage further: bound, sharper bound, forecast.
  Finding Advance(const std::vector<std::int64_t>& round) {
    auto stage = WorkOut(round);
    if (!stage) return tl::unexpected(stage.error());
    for (std::size_t i = 0; i < round.size(); ++i) {
      const std::int64_t plan = round[i];
      if (!result_.sharp[At(plan)]) {
        Screened& sharper = stage->sharper[i];
        TakeSharper(plan, sharper);
        if (!sharper.illegal_code.empty()) {
          result_.illegal[sharper.illegal_code].Add(sharper.illegal_message);
          End(plan, Verdict::kIllegal);
        }
        continue;
      }
      End(plan, Verdict::kSimulated);
      Outcome& outcome = stage->outcomes[i];
      if (Feasible(plan, outcome)) {
        Score score = ScoreOf(plan, outcome.step_time, outcome.memory);
        score.flushes = outcome.flushes > 0;
        ranked_.insert(score);
        const PlanFacts& facts = result_.facts[At(plan)];
        AddToFront(
            {TimePerTokenOf(facts, outcome.step_time), outcome.memory.count(), facts.gpus, plan},
            fronts_[score.flushes ? 1 : 0]);
      }
      result_.outcomes.emplace(plan, std::move(outcome));
    }
    Report();
    return {};
  }

  // The best by what has been simulated so far.
  struct Ranking {
    std::vector<std::int64_t> best;
    // What is not better than this changes nothing; null: everything might.
    const Score* last = nullptr;
  };
  Ranking Rank() const {
    Ranking ranking;
    const auto most = static_cast<std::size_t>(std::max(options_.best, kMostRanked));
    std::size_t looked_at = 0;
    for (const Score& score : ranked_) {
      if (Leader(ranking.best, score.plan) < 0) ranking.best.push_back(score.plan);
      const bool enough =
          ranking.best.size() == static_cast<std::size_t>(options_.best) || ++looked_at == most;
      if (!enough) continue;
      ranking.last = &score;
      break;
    }
    return ranking;
  }

  // The first of these that the plan, which is ranked after them, is as good as; -1: none.
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

  static void AddToFront(const Point& point, std::vector<Point>& front) {
    if (IsDominated(point, front)) return;
    std::erase_if(front, [&](const Point& other) { return Dominates(point, other); });
    front.push_back(point);
  }

  static bool IsDominated(const Point& point, const std::vector<Point>& front) {
    return std::any_of(front.begin(), front.end(),
                       [&](const Point& other) { return Dominates(other, point); });
  }

  // Best first: the plan with the best bound is evaluated next, until no bound is better than the
  // last of the best.
  Finding FindBest() {
    std::priority_queue<Score, std::vector<Score>, std::greater<>> queue;
    {
      std::vector<Score> scores;
      for (std::int64_t plan = 0; plan < answers_.plans(); ++plan) {
        if (pending_[At(plan)]) scores.push_back(ScoreOfBound(plan, Want::kGoal));
      }
      queue = decltype(queue)(std::greater<>(), std::move(scores));
    }
    std::vector<std::int64_t> round;
    while (!queue.empty()) {
      round.clear();
      const Ranking ranking = Rank();
      while (!queue.empty() && round.size() < kRound &&
             (ranking.last == nullptr || queue.top() < *ranking.last)) {
        round.push_back(queue.top().plan);
        queue.pop();
      }
      if (round.empty()) break;
      if (auto advanced = Advance(round); !advanced) return advanced;
      for (const std::int64_t plan : round) {
        if (pending_[At(plan)]) Judge(plan);
        if (pending_[At(plan)]) queue.push(ScoreOfBound(plan, Want::kGoal));
      }
    }
    return {};
  }

  // Whatever no simulated plan dominates by its bound is looked at more closely; those first that
  // promise to dominate most. The front is of plans like the best: plans whose allocator flushes
  // come behind all others, and where one of them is the best nothing is left that may not flush.
  Finding FindFront() {
    std::vector<Point>& front = fronts_[ranked_.begin()->flushes ? 1 : 0];
    using Entry = std::pair<double, std::int64_t>;
    const auto entry = [&](std::int64_t plan) {
      const Point point = PointOfBound(plan);
      return Entry(point.time_per_token.picoseconds() * static_cast<double>(point.memory) *
                       static_cast<double>(point.gpus),
                   plan);
    };
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (std::int64_t plan = 0; plan < answers_.plans(); ++plan) {
      if (pending_[At(plan)]) queue.push(entry(plan));
    }
    std::vector<std::int64_t> round;
    while (!queue.empty()) {
      round.clear();
      while (!queue.empty() && round.size() < kRound) {
        const std::int64_t plan = queue.top().second;
        queue.pop();
        if (!IsDominated(PointOfBound(plan), front)) round.push_back(plan);
      }
      if (round.empty()) break;
      if (auto advanced = Advance(round); !advanced) return advanced;
      for (const std::int64_t plan : round) {
        if (pending_[At(plan)]) Judge(plan);
        if (pending_[At(plan)]) queue.push(entry(plan));
      }
    }
    std::sort(front.begin(), front.end(), [](const Point& a, const Point& b) {
      return std::tie(a.gpus, a.time_per_token, a.memory) <
             std::tie(b.gpus, b.time_per_token, b.memory);
    });
    for (const Point& point : front) result_.pareto.push_back(point.plan);
    return {};
  }

  // Bound not good enough: excluded by the winner, or by another plan?
  void NameTheRest() {
    if (ranked_.empty()) return;
    const std::int64_t winner = ranked_.begin()->plan;
    const Outcome& outcome = result_.outcomes.at(winner);
    const PlanFacts& facts = result_.facts[At(winner)];
    const Point best{TimePerTokenOf(facts, outcome.step_time), outcome.memory.count(), facts.gpus,
                     winner};
    for (std::int64_t plan = 0; plan < answers_.plans(); ++plan) {
      if (!pending_[At(plan)]) continue;
      const bool by_winner = !options_.pareto || Dominates(best, PointOfBound(plan));
      End(plan, by_winner ? Verdict::kBound : Verdict::kDominated);
    }
  }

  // Nothing fits, or nothing that fits is fast enough. The latter comes nearer.
  Finding FindNearest() {
    SearchOptions options = options_;
    options.pareto = false;
    options.progress = nullptr;
    if (goal_.deadline) {
      Goal patient = goal_;
      patient.deadline.reset();
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
    std::priority_queue<Score, std::vector<Score>, std::greater<>> queue;
    for (std::int64_t plan = 0; plan < answers_.plans(); ++plan) {
      if (LeftOut(plan)) continue;
      const auto known = result_.outcomes.find(plan);
      if (known == result_.outcomes.end()) {
        queue.push(ScoreOfBound(plan, Want::kNearest));
      } else if (known->second.illegal_message.empty()) {
        nearest.insert(Lack(plan, known->second));
      }
    }
    const auto best = static_cast<std::size_t>(options_.best);
    while (nearest.size() > best) nearest.erase(std::prev(nearest.end()));
    std::vector<std::int64_t> round;
    while (!queue.empty()) {
      round.clear();
      while (!queue.empty() && round.size() < kRound &&
             (nearest.size() < best || queue.top() < *std::prev(nearest.end()))) {
        round.push_back(queue.top().plan);
        queue.pop();
      }
      if (round.empty()) break;
      auto stage = WorkOut(round);
      if (!stage) return tl::unexpected(stage.error());
      for (std::size_t i = 0; i < round.size(); ++i) {
        const std::int64_t plan = round[i];
        if (!result_.sharp[At(plan)]) {
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

  Score Lack(std::int64_t plan, const Outcome& outcome) const {
    const Bytes lacks = outcome.over + HeadroomOf(goal_, result_.facts[At(plan)]);
    return {.first = static_cast<double>(lacks.count()),
            .time_per_token = TimePerTokenOf(result_.facts[At(plan)], outcome.step_time),
            .memory = outcome.memory.count(),
            .plan = plan};
  }

  Answers& answers_;
  const Goal& goal_;
  const SearchOptions& options_;
  const SearchResult* known_;
  SearchResult result_;
  std::map<std::string, Outcome> by_program_;
  std::vector<char> pending_;  // by plan: neither pruned nor simulated
  std::set<Score> ranked_;     // of feasible simulated plans
  // The fronts of those whose allocator does not flush, and of those whose does.
  std::array<std::vector<Point>, 2> fronts_;
};

}  // namespace

const char* Name(Target target) {
  switch (target) {
    case Target::kStepTime:
      return "step_time";
    case Target::kThroughput:
      return "throughput";
    case Target::kGpus:
      return "gpus";
    case Target::kCost:
      return "cost";
    case Target::kMemory:
      return "memory";
  }
  return "";
}

const char* Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIllegal:
      return "illegal";
    case Verdict::kSame:
      return "same";
    case Verdict::kDoesNotFit:
      return "does_not_fit";
    case Verdict::kTooSlow:
      return "too_slow";
    case Verdict::kBound:
      return "bound";
    case Verdict::kDominated:
      return "dominated";
    case Verdict::kSimulated:
      return "simulated";
  }
  return "";
}

std::int64_t SearchResult::Count(Verdict verdict) const {
  return std::count(verdicts.begin(), verdicts.end(), verdict);
}

bool SearchResult::UnequalTokens() const {
  std::int64_t tokens = 0;
  for (std::size_t plan = 0; plan < verdicts.size(); ++plan) {
    if (verdicts[plan] == Verdict::kIllegal) continue;
    if (tokens == 0) tokens = facts[plan].tokens;
    if (facts[plan].tokens != tokens) return true;
  }
  return false;
}

double CostOfMillionTokens(const Goal& goal, const PlanFacts& facts, Time step_time) {
  constexpr double kSecondsPerHour = 3600;
  return GpuSecondsPerToken(facts, step_time) / kSecondsPerHour * goal.gpu_hour_price * 1e6;
}

double TrainingSeconds(const Goal& goal, const PlanFacts& facts, Time step_time) {
  const double steps =
      std::ceil(goal.tokens / std::max<double>(1, static_cast<double>(facts.tokens)));
  return steps * step_time.seconds();
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

tl::expected<SearchResult, std::string> Search(Answers& answers, const Goal& goal,
                                               const SearchOptions& options,
                                               const SearchResult* known) {
  STEPCAST_CHECK(options.best >= 1, "at least one plan is ranked");
  return Searcher(answers, goal, options, known).Run();
}

SearchResult Search(const SearchProblem& problem, const Goal& goal, const SearchOptions& options,
                    const SearchResult* known) {
  const auto pool = MakeThreadPool(WorkOf(problem), options.threads);
  Answers answers(problem.plans, *pool);
  auto result = Search(answers, goal, options, known);
  STEPCAST_CHECK(result.has_value(), "threads and no store have nothing to fail at");
  return *std::move(result);
}

}  // namespace stepcast::planner
