#include "src/planner/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "oneapi/tbb/parallel_for.h"
#include "oneapi/tbb/task_arena.h"
#include "src/base/check.h"

namespace stepcast::planner {
namespace {

// How many plans are worked on between two looks at what was found: fixed, so that what is pruned
// does not depend on the threads.
constexpr std::size_t kRound = 16;

struct Score {
  double first = 0;
  std::int64_t time = 0, memory = 0;
  std::int64_t plan = 0;

  auto Tie() const { return std::tie(first, time, memory, plan); }
  friend bool operator<(const Score& a, const Score& b) { return a.Tie() < b.Tie(); }
  friend bool operator>(const Score& a, const Score& b) { return b < a; }
};

struct Point {
  std::int64_t time = 0, memory = 0, gpus = 0;
  std::int64_t plan = 0;
};

// `a` is at least as good in everything, and better in something or the first of equals. What
// dominates a bound dominates whatever is no better than the bound.
bool Dominates(const Point& a, const Point& b) {
  if (a.time > b.time || a.memory > b.memory || a.gpus > b.gpus) return false;
  return a.time < b.time || a.memory < b.memory || a.gpus < b.gpus || a.plan < b.plan;
}

double GpuSecondsPerToken(const PlanFacts& facts, Time step_time) {
  return step_time.seconds() * static_cast<double>(facts.gpus) /
         std::max<double>(1, static_cast<double>(facts.tokens));
}

Score ScoreOf(const Goal& goal, const PlanFacts& facts, std::int64_t plan, Time step_time,
              Bytes memory) {
  Score score{.time = step_time.picoseconds(), .memory = memory.count(), .plan = plan};
  switch (goal.target) {
    case Target::kStepTime:
      break;
    case Target::kThroughput:
    case Target::kCost:  // the price is the same for all
      score.first = GpuSecondsPerToken(facts, step_time);
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

// What a search is after when nothing fits: the plans that lack least.
enum class Want : std::uint8_t { kGoal, kNearest };

class Searcher {
 public:
  Searcher(const SearchProblem& problem, const Goal& goal, const SearchOptions& options,
           const SearchResult* known)
      : problem_(problem),
        goal_(goal),
        options_(options),
        known_(known),
        arena_(options.threads > 0 ? options.threads : oneapi::tbb::task_arena::automatic) {}

  SearchResult Run() {
    if (known_ == nullptr) {
      Screen();
    } else {
      result_.fates = known_->fates;
      result_.facts = known_->facts;
      result_.bounds = known_->bounds;
      result_.sharp = known_->sharp;
      result_.illegal = known_->illegal;
    }
    pending_.assign(result_.fates.size(), true);
    for (std::int64_t plan = 0; plan < problem_.plans; ++plan) {
      if (LeftOut(plan)) pending_[At(plan)] = false;
      if (pending_[At(plan)]) Judge(plan);
    }
    FindBest();
    if (options_.pareto && !best_.empty()) FindFront();
    NameTheRest();
    for (const Score& score : best_) result_.best.push_back(score.plan);
    if (best_.empty()) FindNearest();
    return std::move(result_);
  }

 private:
  std::size_t At(std::int64_t plan) const { return static_cast<std::size_t>(plan); }

  bool LeftOut(std::int64_t plan) const {
    const Fate fate = result_.fates[At(plan)];
    return fate == Fate::kIllegal || fate == Fate::kSame;
  }

  template <typename Function>
  void Parallel(std::size_t count, const Function& function) {
    arena_.execute([&] {
      oneapi::tbb::parallel_for(std::size_t{0}, count, function, oneapi::tbb::simple_partitioner());
    });
  }

  void Report() {
    if (!options_.progress) return;
    options_.progress(problem_.plans, static_cast<std::int64_t>(result_.outcomes.size()));
  }

  void Screen() {
    const auto plans = static_cast<std::size_t>(problem_.plans);
    result_.fates.assign(plans, Fate::kBound);
    result_.facts.resize(plans);
    result_.bounds.resize(plans);
    result_.sharp.assign(plans, false);
    std::atomic<std::int64_t> done{0};
    std::mutex reporting;
    std::mutex counting;
    std::map<std::string, std::int64_t> first;  // plan of the example
    constexpr std::size_t kBlock = 64;
    Parallel((plans + kBlock - 1) / kBlock, [&](std::size_t block) {
      for (std::size_t i = block * kBlock; i < std::min(plans, (block + 1) * kBlock); ++i) {
        const auto plan = static_cast<std::int64_t>(i);
        Screened screened = problem_.screen(plan);
        result_.facts[i] = screened.facts;
        result_.bounds[i] = screened.bound;
        if (screened.same_as_another) result_.fates[i] = Fate::kSame;
        if (screened.illegal_code.empty()) continue;
        result_.fates[i] = Fate::kIllegal;
        const std::lock_guard<std::mutex> lock(counting);
        IllegalReason& reason = result_.illegal[screened.illegal_code];
        ++reason.count;
        const auto [example, added] = first.emplace(screened.illegal_code, plan);
        if (added || plan < example->second) {
          example->second = plan;
          reason.example = std::move(screened.illegal_message);
        }
      }
      done += kBlock;
      const std::unique_lock<std::mutex> lock(reporting, std::try_to_lock);
      if (options_.progress && lock.owns_lock()) {
        options_.progress(std::min(done.load(), problem_.plans), 0);
      }
    });
  }

  bool MayFit(const Bound& bound, const PlanFacts& facts) const {
    if (bound.fits) return true;
    return bound.fits_host && bound.over <= Spare(facts);
  }
  Bytes Spare(const PlanFacts& facts) const {
    return Bytes(std::llround(goal_.spare_memory * static_cast<double>(facts.capacity.count())));
  }

  bool MeetsDeadline(const PlanFacts& facts, Time step_time) const {
    return !goal_.deadline || TrainingSeconds(goal_, facts, step_time) <= goal_.deadline->seconds();
  }

  // What the plan's bound says of it alone.
  void Judge(std::int64_t plan) {
    const Bound& bound = result_.bounds[At(plan)];
    const PlanFacts& facts = result_.facts[At(plan)];
    if (!MayFit(bound, facts)) {
      End(plan, Fate::kDoesNotFit);
    } else if (!MeetsDeadline(facts, bound.step_time)) {
      End(plan, Fate::kTooSlow);
    }
  }

  void End(std::int64_t plan, Fate fate) {
    pending_[At(plan)] = false;
    result_.fates[At(plan)] = fate;
  }

  Score ScoreOf(std::int64_t plan, Time step_time, Bytes memory) const {
    return planner::ScoreOf(goal_, result_.facts[At(plan)], plan, step_time, memory);
  }
  Score ScoreOfBound(std::int64_t plan, Want want) const {
    const Bound& bound = result_.bounds[At(plan)];
    if (want == Want::kGoal) return ScoreOf(plan, bound.step_time, bound.memory);
    return {.first = static_cast<double>(bound.over.count()),
            .time = bound.step_time.picoseconds(),
            .memory = bound.memory.count(),
            .plan = plan};
  }
  Point PointOfBound(std::int64_t plan) const {
    const Bound& bound = result_.bounds[At(plan)];
    return {bound.step_time.picoseconds(), bound.memory.count(), result_.facts[At(plan)].gpus,
            plan};
  }

  bool Feasible(std::int64_t plan, const Outcome& outcome) const {
    if (!outcome.illegal_message.empty()) return false;
    const PlanFacts& facts = result_.facts[At(plan)];
    const bool fits = outcome.fits ||
                      (outcome.fits_host && goal_.spare_memory > 0 && outcome.over <= Spare(facts));
    return fits && MeetsDeadline(facts, outcome.step_time);
  }

  Outcome Simulate(std::int64_t plan) const {
    if (known_ != nullptr) {
      const auto found = known_->outcomes.find(plan);
      if (found != known_->outcomes.end()) return found->second;
    }
    return problem_.simulate(plan);
  }

  // What the next stage says of each plan of a round: a sharper bound, or after that a forecast.
  struct Stage {
    std::vector<Screened> sharper;
    std::vector<Outcome> outcomes;
  };
  Stage WorkOut(const std::vector<std::int64_t>& round) {
    Stage stage{std::vector<Screened>(round.size()), std::vector<Outcome>(round.size())};
    Parallel(round.size(), [&](std::size_t i) {
      if (result_.sharp[At(round[i])]) {
        stage.outcomes[i] = Simulate(round[i]);
      } else {
        stage.sharper[i] = problem_.sharpen(round[i]);
      }
    });
    return stage;
  }

  // Takes each plan of a round one stage further: bound, sharper bound, forecast.
  void Advance(const std::vector<std::int64_t>& round) {
    auto [sharper, outcomes] = WorkOut(round);
    for (std::size_t i = 0; i < round.size(); ++i) {
      const std::int64_t plan = round[i];
      if (!result_.sharp[At(plan)]) {
        result_.sharp[At(plan)] = true;
        ++result_.sharpened;
        if (sharper[i].illegal_code.empty()) {
          result_.bounds[At(plan)] = sharper[i].bound;
        } else {
          IllegalReason& reason = result_.illegal[sharper[i].illegal_code];
          if (reason.count++ == 0) reason.example = std::move(sharper[i].illegal_message);
          End(plan, Fate::kIllegal);
        }
        continue;
      }
      End(plan, Fate::kSimulated);
      Outcome& outcome = outcomes[i];
      if (Feasible(plan, outcome)) {
        best_.insert(ScoreOf(plan, outcome.step_time, outcome.memory));
        if (static_cast<int>(best_.size()) > options_.best) best_.erase(std::prev(best_.end()));
        AddToFront({outcome.step_time.picoseconds(), outcome.memory.count(),
                    result_.facts[At(plan)].gpus, plan});
      }
      result_.outcomes.emplace(plan, std::move(outcome));
    }
    Report();
  }

  void AddToFront(const Point& point) {
    if (DominatorOf(point) != nullptr) return;
    std::erase_if(front_, [&](const Point& other) { return Dominates(point, other); });
    front_.push_back(point);
  }

  const Point* DominatorOf(const Point& point) const {
    const auto found = std::find_if(front_.begin(), front_.end(),
                                    [&](const Point& other) { return Dominates(other, point); });
    return found == front_.end() ? nullptr : &*found;
  }

  // Best first: who has the best bound is looked at more closely, until nobody's bound is better
  // than the last of the best.
  void FindBest() {
    std::priority_queue<Score, std::vector<Score>, std::greater<>> queue;
    {
      std::vector<Score> scores;
      for (std::int64_t plan = 0; plan < problem_.plans; ++plan) {
        if (pending_[At(plan)]) scores.push_back(ScoreOfBound(plan, Want::kGoal));
      }
      queue = decltype(queue)(std::greater<>(), std::move(scores));
    }
    const auto wanted = [&](const Score& score) {
      return static_cast<int>(best_.size()) < options_.best || score < *std::prev(best_.end());
    };
    std::vector<std::int64_t> round;
    while (!queue.empty()) {
      round.clear();
      while (!queue.empty() && round.size() < kRound && wanted(queue.top())) {
        round.push_back(queue.top().plan);
        queue.pop();
      }
      if (round.empty()) break;
      Advance(round);
      for (const std::int64_t plan : round) {
        if (pending_[At(plan)]) Judge(plan);
        if (pending_[At(plan)]) queue.push(ScoreOfBound(plan, Want::kGoal));
      }
    }
  }

  // Whatever no simulated plan dominates by its bound is looked at more closely; those first that
  // promise to dominate most.
  void FindFront() {
    using Entry = std::pair<double, std::int64_t>;
    const auto entry = [&](std::int64_t plan) {
      const Point point = PointOfBound(plan);
      return Entry(static_cast<double>(point.time) * static_cast<double>(point.memory) *
                       static_cast<double>(point.gpus),
                   plan);
    };
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (std::int64_t plan = 0; plan < problem_.plans; ++plan) {
      if (pending_[At(plan)]) queue.push(entry(plan));
    }
    std::vector<std::int64_t> round;
    while (!queue.empty()) {
      round.clear();
      while (!queue.empty() && round.size() < kRound) {
        const std::int64_t plan = queue.top().second;
        queue.pop();
        if (DominatorOf(PointOfBound(plan)) == nullptr) round.push_back(plan);
      }
      if (round.empty()) break;
      Advance(round);
      for (const std::int64_t plan : round) {
        if (pending_[At(plan)]) Judge(plan);
        if (pending_[At(plan)]) queue.push(entry(plan));
      }
    }
    std::sort(front_.begin(), front_.end(), [](const Point& a, const Point& b) {
      return std::tie(a.gpus, a.time, a.memory) < std::tie(b.gpus, b.time, b.memory);
    });
    for (const Point& point : front_) result_.pareto.push_back(point.plan);
  }

  // Whose bound is not good enough: is it the winner's doing, or another's?
  void NameTheRest() {
    if (best_.empty()) return;
    const std::int64_t winner = best_.begin()->plan;
    const Outcome& outcome = result_.outcomes.at(winner);
    const Point best{outcome.step_time.picoseconds(), outcome.memory.count(),
                     result_.facts[At(winner)].gpus, winner};
    for (std::int64_t plan = 0; plan < problem_.plans; ++plan) {
      if (!pending_[At(plan)]) continue;
      const bool by_winner = !options_.pareto || Dominates(best, PointOfBound(plan));
      End(plan, by_winner ? Fate::kBound : Fate::kDominated);
    }
  }

  // Nothing fits, or nothing that fits is fast enough. The latter comes nearer.
  void FindNearest() {
    SearchOptions options = options_;
    options.pareto = false;
    options.progress = nullptr;
    if (goal_.deadline) {
      Goal patient = goal_;
      patient.deadline.reset();
      if (patient.target == Target::kGpus || patient.target == Target::kMemory) {
        patient.target = Target::kStepTime;
      }
      SearchResult without = Search(problem_, patient, options, &result_);
      if (!without.best.empty()) {
        result_.nearest = std::move(without.best);
        result_.outcomes.merge(without.outcomes);
        return;
      }
    }
    NearestToFit();
  }

  void NearestToFit() {
    std::set<Score> nearest;
    std::priority_queue<Score, std::vector<Score>, std::greater<>> queue;
    for (std::int64_t plan = 0; plan < problem_.plans; ++plan) {
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
      auto [sharper, outcomes] = WorkOut(round);
      for (std::size_t i = 0; i < round.size(); ++i) {
        const std::int64_t plan = round[i];
        if (!result_.sharp[At(plan)]) {
          result_.sharp[At(plan)] = true;
          if (!sharper[i].illegal_code.empty()) continue;
          result_.bounds[At(plan)] = sharper[i].bound;
          queue.push(ScoreOfBound(plan, Want::kNearest));
          continue;
        }
        if (outcomes[i].illegal_message.empty()) {
          nearest.insert(Lack(plan, outcomes[i]));
          if (nearest.size() > best) nearest.erase(std::prev(nearest.end()));
        }
        result_.outcomes.emplace(plan, std::move(outcomes[i]));
      }
    }
    for (const Score& score : nearest) result_.nearest.push_back(score.plan);
  }

  static Score Lack(std::int64_t plan, const Outcome& outcome) {
    return {.first = static_cast<double>(outcome.over.count()),
            .time = outcome.step_time.picoseconds(),
            .memory = outcome.memory.count(),
            .plan = plan};
  }

  const SearchProblem& problem_;
  const Goal& goal_;
  const SearchOptions& options_;
  const SearchResult* known_;
  oneapi::tbb::task_arena arena_;
  SearchResult result_;
  std::vector<char> pending_;  // by plan: neither pruned nor simulated
  std::set<Score> best_;       // at most options.best
  std::vector<Point> front_;   // of feasible simulated plans
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

const char* Name(Fate fate) {
  switch (fate) {
    case Fate::kIllegal:
      return "illegal";
    case Fate::kSame:
      return "same";
    case Fate::kDoesNotFit:
      return "does_not_fit";
    case Fate::kTooSlow:
      return "too_slow";
    case Fate::kBound:
      return "bound";
    case Fate::kDominated:
      return "dominated";
    case Fate::kSimulated:
      return "simulated";
  }
  return "";
}

std::int64_t SearchResult::Count(Fate fate) const {
  return std::count(fates.begin(), fates.end(), fate);
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

SearchResult Search(const SearchProblem& problem, const Goal& goal, const SearchOptions& options,
                    const SearchResult* known) {
  STEPCAST_CHECK(options.best >= 1, "somebody must be best");
  return Searcher(problem, goal, options, known).Run();
}

std::vector<std::int64_t> NearLosers(const SearchResult& result, const Goal& goal, int count,
                                     const std::function<std::string(std::int64_t)>& kind) {
  std::vector<Score> scores;
  for (std::size_t i = 0; i < result.fates.size(); ++i) {
    const auto plan = static_cast<std::int64_t>(i);
    if (result.fates[i] == Fate::kIllegal || result.fates[i] == Fate::kSame) continue;
    const auto found = result.outcomes.find(plan);
    const bool simulated = found != result.outcomes.end();
    scores.push_back(ScoreOf(goal, result.facts[i], plan,
                             simulated ? found->second.step_time : result.bounds[i].step_time,
                             simulated ? found->second.memory : result.bounds[i].memory));
  }
  std::sort(scores.begin(), scores.end());
  std::set<std::string> kinds;
  for (const std::int64_t plan : result.best) kinds.insert(kind(plan));
  std::vector<std::int64_t> plans;
  for (const Score& score : scores) {
    if (static_cast<int>(plans.size()) >= count) break;
    if (kinds.insert(kind(score.plan)).second) plans.push_back(score.plan);
  }
  return plans;
}

}  // namespace stepcast::planner
