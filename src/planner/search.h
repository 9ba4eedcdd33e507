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

// Finds the best of many plans without simulating all of them, and proves that no better plan was
// missed (docs/planning.md). In this file, a plan is a number for which bounds and forecasts can be
// computed.
namespace stepcast::planner {

enum class Target : std::uint8_t {
  kStepTime,    // the shortest step; per token if plans have different numbers of tokens
  kThroughput,  // the most tokens per second and GPU
  kGpus,        // the fewest GPUs, then as kStepTime
  kCost,        // the lowest cost per token
  kMemory,      // the lowest peak
  kDays,        // the shortest training, with its failures
  kEnergy,      // the least energy per token
};
inline constexpr Target kTargets[] = {Target::kStepTime, Target::kThroughput, Target::kGpus,
                                      Target::kCost,     Target::kMemory,     Target::kDays,
                                      Target::kEnergy};
const char* Name(
    Target target);  // "step_time", "throughput", "gpus", "cost", "memory", "days", ...

struct Goal {
  Target target = Target::kStepTime;
  forecast::TrainingTarget training;
  // For a what-if: additional memory of each device, as a fraction of the device's memory.
  double spare_memory = 0;
  // The memory that must stay free on each device: `headroom`, plus the fraction `headroom_part` of
  // the device's memory.
  Bytes headroom{};
  double headroom_part = 0;
};

// The progress of a search.
struct SearchProgress {
  std::int64_t screened = 0, families = 0;  // number of families with bounds, and of all families
  std::int64_t simulated = 0;               // number of plans
  std::int64_t looked_at = 0;               // times that a plan got a tighter bound or a forecast
  // The number of plans and families whose bounds are better than the best result so far. -1:
  // unknown.
  std::int64_t open = -1;
};

struct SearchOptions {
  int best = 5;        // number of plans to rank
  int exact = 0;       // number of these that are proved; the others are the best simulated; 0: all
  bool pareto = true;  // also find the front
  int threads = 0;     // number in this process; 0: one for each core
  // Returns a text that is equal for plans that differ only in settings that may have no effect.
  // Among such plans that tie (Tied), only the first is ranked. Null: each plan is ranked.
  std::function<std::string(std::int64_t plan)> kind{};
  // Returns the number of a plan's group, below `groups`. The search begins with the best plan of
  // each group. All plans of a family are in the same group.
  std::function<int(std::int64_t plan)> group{};
  int groups = 0;
  // The scenario's own plan. It is ranked first, so that no answer is worse than it. -1: the search
  // does not include it. `own_outcome` is its forecast, if known. The search then ranks the plan
  // even if all work has been stopped.
  std::int64_t own = -1;
  std::optional<Outcome> own_outcome{};
  // Returns whether the search includes a plan. It includes either all plans of a family or none.
  // Null: the search includes all plans.
  std::function<bool(std::int64_t plan)> among{};
  // Called from time to time. If it returns true, the search ends with the results so far.
  std::function<bool()> enough{};
  // Whether the search will be ended early, so that it must find good plans first.
  bool anytime = false;
  // Called from time to time. If it returns true, the search continues with only the families that
  // have bounds, and leaves the others open. Null: `enough` is called instead.
  std::function<bool()> bounded_enough{};
  // Receives the progress from time to time. Never called from two threads at once.
  std::function<void(const SearchProgress&)> progress{};
};

// Illegal plans that have the same error code.
struct IllegalReason {
  std::int64_t count = 0;
  // The number of plans whose first mistake has the same message, and a hint.
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

// The best plan of a group.
struct GroupBest {
  std::int64_t plans = 0;  // number of plans that may be legal
  std::int64_t best = -1;  // the best found; -1: none is eligible
  // A lower bound of the time (per token) of every plan in the group, relative to the time of
  // `best`. 1: `best` is optimal.
  double least = 0;
  // If there is no best plan: the plan that lacks the least memory, by its bound. Otherwise -1.
  std::int64_t nearest = -1;
};

struct SearchResult {
  // The plans ranked by the goal; among equal plans, the lower number comes first. Up to
  // SearchOptions::exact, an exhaustive search gives the same ranking. With SearchOptions::kind,
  // plans that tie with an earlier one are omitted. At most kMostRanked plans are considered, so
  // fewer plans than requested may be ranked. If the search was ended early, these are the best
  // plans found.
  std::vector<std::int64_t> best;
  // For each ranked plan: the simulated plans that tie with it and were omitted, in ascending
  // order.
  std::map<std::int64_t, std::vector<std::int64_t>> ties;
  // The front, ordered by GPUs, then by step time (per token). No other eligible plan is at least
  // as good as one of these in step time (per token), memory and GPUs; among equal plans, the first
  // is kept. Plans that are not safe are included only if the best plan is not safe either. The
  // front is exact. Empty if not requested or not proved.
  std::vector<std::int64_t> pareto;
  // If no plan both fits and meets the deadline: the plans that come closest.
  std::vector<std::int64_t> nearest;
  std::vector<GroupBest> groups;
  // False: the search ended before everything was proved. `open` plans may then be better than the
  // best, by at most the fraction 1 - `least` of the best plan's time (per token) or measure of the
  // goal.
  bool proved = true;
  std::int64_t open = 0;
  double least = 1;
  PlanStates states;
  std::map<std::int64_t, Outcome> outcomes;  // for simulated plans
  // Screened::program, if known, of each plan whose bound comes from its program.
  std::map<std::int64_t, std::string> programs;
  std::int64_t shared = 0;  // number of simulated plans that share another plan's outcome
  std::map<std::string, IllegalReason> illegal;  // by code
  std::int64_t sharpened = 0;                    // number of plans with bounds from their programs

  std::int64_t Count(Verdict verdict) const { return states.Count(verdict); }
  // Returns whether step times are not comparable, so that all comparisons use the time per token.
  bool UnequalTokens() const { return states.UnequalTokens(); }
};

// The largest number of plans that are considered for the ranking, in order, if many plans tie. It
// is larger if more plans are requested.
inline constexpr int kMostRanked = 64;

// Returns whether the settings in which two plans differ have no effect. `other` is a plan of the
// same kind and tokens that is ranked after `plan`. The plans tie if their step times are equal
// within 0.05 % and `other` needs no less memory within 1 %.
bool Tied(const Outcome& plan, const Outcome& other);

// Searches the plans of `answers`. The result does not depend on the number of threads and ranks.
// `known` is the result of an earlier search of the same plans, possibly with another goal; null:
// this is the first search. Errors: those of Answers.
tl::expected<SearchResult, std::string> Search(Answers& answers, const Goal& goal,
                                               const SearchOptions& options,
                                               const SearchResult* known = nullptr);
// Searches on the threads of this process.
SearchResult Search(const SearchProblem& problem, const Goal& goal, const SearchOptions& options,
                    const SearchResult* known = nullptr);

// Returns the rejected plans that are closest to the best plan, by bounds or forecasts. The list
// takes plans from each rejection reason in turn, and only the first of several plans of the same
// kind. Plans that do not fit are ranked by the memory that they lack. If some of these plans have
// better bounds than the best plan, only they are included. All other plans are ranked by the goal.
std::vector<std::int64_t> RunnersUp(const SearchResult& result, const Goal& goal, int count,
                                    const std::function<std::string(std::int64_t)>& kind);

// The smallest probability of fitting that a safe plan has. A safe plan's allocator also does not
// flush its cache. Unsafe plans are ranked last. The reason: among thousands of plans, the memory
// of plans that just fit is likely to be underestimated.
inline constexpr double kSafeFit = 0.9;
inline bool IsSafe(const Bound& bound) { return bound.fit_probability >= kSafeFit; }
inline bool IsSafe(const Outcome& outcome) {
  return outcome.flushes == 0 && outcome.fit_probability >= kSafeFit;
}

// Returns whether a plan with this forecast may be ranked and may be on the front. Such a plan is
// legal, fits with the headroom, and meets the deadline.
bool Eligible(const Goal& goal, const PlanFacts& facts, const Outcome& outcome);

// Returns the memory that must stay free on each of a plan's devices.
Bytes HeadroomOf(const Goal& goal, const PlanFacts& facts);
// Returns the plan's step as a part of the whole training.
inline forecast::TrainedStep StepOf(const PlanFacts& facts, Time step_time, double joules = 0) {
  return {step_time, facts.tokens, facts.gpus, joules, facts.idle_watts};
}
inline forecast::TrainedStep StepOf(const PlanFacts& facts, const Outcome& outcome) {
  return StepOf(facts, outcome.step_time, outcome.joules);
}
inline bool MeetsDeadline(const Goal& goal, const PlanFacts& facts, Time step_time) {
  return forecast::MeetsDeadline(goal.training, StepOf(facts, step_time));
}

}  // namespace stepcast::planner
