#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/training_run.h"
#include "src/planner/answers.h"
#include "src/planner/plan_states.h"
#include "src/planner/search_problem.h"
#include "tl/expected.hpp"

// Finds the best of many plans without simulating them all, and proves that none was missed
// (docs/planning.md). Plans are numbers here; bounds and forecasts are those of a number.
namespace stepcast::planner {

enum class Target : std::uint8_t {
  kStepTime,    // the shortest step; where plans have unequal tokens a step, for a token
  kThroughput,  // the most tokens per second and GPU
  kGpus,        // the fewest GPUs, then as kStepTime
  kCost,        // the least money for a token
  kMemory,      // the lowest peak
};
inline constexpr Target kTargets[] = {Target::kStepTime, Target::kThroughput, Target::kGpus,
                                      Target::kCost, Target::kMemory};
const char* Name(Target target);  // "step_time", "throughput", "gpus", "cost", "memory"

struct Goal {
  Target target = Target::kStepTime;
  forecast::TrainingTarget training;
  // For a what-if: additional device memory, as a fraction of it.
  double spare_memory = 0;
  // Memory that must stay free on each device: so much, and such a fraction of it.
  Bytes headroom{};
  double headroom_part = 0;
};

// How far a search has come.
struct SearchProgress {
  std::int64_t screened = 0, families = 0;  // of all families: those that have bounds
  std::int64_t simulated = 0;               // plans
  std::int64_t looked_at = 0;               // how often a plan got a sharper bound or a forecast
  // Plans and families that may still be looked at: their bounds are better than what was found.
  // -1: not known yet.
  std::int64_t open = -1;
};

struct SearchOptions {
  int best = 5;   // how many to rank
  int exact = 0;  // how many of them are proved; the others are the best of what was simulated;
                  // 0: all
  bool pareto = true;  // find the front too
  int threads = 0;     // of this process; 0: one for each core
  // Equal for plans that differ only in settings that may make no difference: of such plans that
  // tie (Tied) only the first is ranked. Null: each is ranked by itself.
  std::function<std::string(std::int64_t plan)> kind{};
  // The group of a plan, one of `groups`: the best of each is looked for, too, which is how a
  // search begins. Plans of one family are of one group.
  std::function<int(std::int64_t plan)> group{};
  int groups = 0;
  // The plan that is simulated before anything else, so that no answer is worse; -1: none.
  std::int64_t own = -1;
  // Which plans there are to choose from; null: all. Plans of one family all are, or none.
  std::function<bool(std::int64_t plan)> among{};
  // Whether the search is to end with what it has found. Asked from time to time.
  std::function<bool()> enough{};
  // It will, before all is proved: so good answers are looked for first.
  bool anytime = false;
  // Whether the search is to go on with the families that have bounds by now, and to leave the
  // others open; null: as `enough`.
  std::function<bool()> bounded_enough{};
  // Told from time to time; never from two threads at once.
  std::function<void(const SearchProgress&)> progress{};
};

// Illegal plans of one code.
struct IllegalReason {
  std::int64_t count = 0;
  // By the message of their first mistake: how many plans have it, and what would cure it.
  struct Refused {
    std::int64_t count = 0;
    std::string hint;
  };
  std::map<std::string, Refused> messages;

  void Add(const std::string& message, const std::string& hint, std::int64_t plans) {
    count += plans;
    Refused& refused = messages[message];
    refused.count += plans;
    if (refused.hint.empty()) refused.hint = hint;
  }
};

// The best of a group of plans.
struct GroupBest {
  std::int64_t plans = 0;  // that may exist
  std::int64_t best = -1;  // that was found; -1: none that will do
  // No plan of the group takes less time (for a token) than this part of the best one's. 1: it is
  // the best.
  double least = 0;
  std::int64_t nearest = -1;  // without one: what lacks least memory, by bounds
};

struct SearchResult {
  // Ranked by the goal; of equal plans the one with the lower number comes first. Exact, as far as
  // SearchOptions::exact asks for it: an exhaustive search gives the same. With
  // SearchOptions::kind, plans that tie with one before them are left out, and where kMostRanked
  // plans are fewer than requested without these, they are all that is ranked. Where the search was
  // ended before: of what it has found.
  std::vector<std::int64_t> best;
  // By ranked plan: its ties, which were left out, of all that were simulated; ascending.
  std::map<std::int64_t, std::vector<std::int64_t>> ties;
  // By GPUs, then step time (for a token). No plan that may be the best is at least as good in step
  // time (for a token), memory and GPUs; of equal ones the first. Plans that are not safe are on it
  // only if the best is not. Exact. Empty if not requested, or not proved.
  std::vector<std::int64_t> pareto;
  // Without a plan that fits and meets the deadline: those that come nearest.
  std::vector<std::int64_t> nearest;
  std::vector<GroupBest> groups;
  // False: the search was ended before all of this was proved. `open` plans may then be better than
  // the best, none by more than its time (for a token) times 1 - `least`.
  bool proved = true;
  std::int64_t open = 0;
  double least = 1;
  PlanStates states;
  std::map<std::int64_t, Outcome> outcomes;  // of simulated plans
  // Screened::program of plans with sharp bounds, where it is known.
  std::map<std::int64_t, std::string> programs;
  std::int64_t shared = 0;  // of simulated plans: those that have another's outcome
  std::map<std::string, IllegalReason> illegal;  // by code
  std::int64_t sharpened = 0;                    // plans with bounds from their programs

  std::int64_t Count(Verdict verdict) const { return states.Count(verdict); }
  // Step times alone then say little, and whatever is ranked or compared by time is so by that of a
  // token.
  bool UnequalTokens() const { return states.UnequalTokens(); }
};

// How many plans are considered for the best, in ranking order, if many of them tie with one before
// them; more if more are requested.
inline constexpr int kMostRanked = 64;

// A plan of the same kind (and tokens) whose step takes as long to within 0.05 %, and that needs no
// less memory to within 1 %: the settings that differ from those of `plan`, which is ranked before
// it, make no difference.
bool Tied(const Outcome& plan, const Outcome& other);

// The same on any number of threads and ranks. `known`: the result of an earlier search of the same
// plans, possibly with another goal; null: none. Errors: those of Answers.
tl::expected<SearchResult, std::string> Search(Answers& answers, const Goal& goal,
                                               const SearchOptions& options,
                                               const SearchResult* known = nullptr);
// On the threads of this process.
SearchResult Search(const SearchProblem& problem, const Goal& goal, const SearchOptions& options,
                    const SearchResult* known = nullptr);

// The plans beside the best that come nearest to it, by their bounds or forecasts: in turn for each
// rejection reason, of each kind only the first. Plans that do not fit are ranked by the memory
// they lack (where there are such, only plans whose bounds are better than the best), all others by
// the goal.
std::vector<std::int64_t> RunnersUp(const SearchResult& result, const Goal& goal, int count,
                                    const std::function<std::string(std::int64_t)>& kind);

// A plan fits safely with at least this probability, and if its allocator does not flush its cache.
// Plans that do not are ranked behind those that do: among thousands of plans, those that just fit
// are the ones whose memory is forecast too low.
inline constexpr double kSafeFit = 0.9;
inline bool IsSafe(const Bound& bound) { return bound.fit_probability >= kSafeFit; }
inline bool IsSafe(const Outcome& outcome) {
  return outcome.flushes == 0 && outcome.fit_probability >= kSafeFit;
}

// Whether a plan with this forecast may be the best, and on the front: it can exist, fits with what
// must stay free, and meets the deadline.
bool Eligible(const Goal& goal, const PlanFacts& facts, const Outcome& outcome);

// Memory that must stay free on a plan's devices.
Bytes HeadroomOf(const Goal& goal, const PlanFacts& facts);
// The plan's step, of the training.
inline forecast::TrainedStep StepOf(const PlanFacts& facts, Time step_time) {
  return {step_time, facts.tokens, facts.gpus};
}
inline bool MeetsDeadline(const Goal& goal, const PlanFacts& facts, Time step_time) {
  return forecast::MeetsDeadline(goal.training, StepOf(facts, step_time));
}

}  // namespace stepcast::planner
