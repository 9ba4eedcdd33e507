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

// Finds the best of many plans without simulating all of them, and proves that no better plan
// exists (docs/planning.md). A plan is identified by its index. Bounds and forecasts can be
// computed for each plan.
namespace stepcast::planner {

enum class Target : std::uint8_t {
  kStepTime,    // the shortest step; per token if plans have different numbers of tokens
  kThroughput,  // the most tokens per second and GPU
  kGpus,        // the fewest GPUs; among equals, the shortest step
  kCost,        // the lowest cost per token
  kMemory,      // the lowest peak memory
  kDays,        // the shortest training, including time lost to failures
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
  // The memory that must stay free on each device: `headroom` plus `headroom_part` x device memory.
  Bytes headroom{};
  double headroom_part = 0;
};

// The progress of a search.
struct SearchProgress {
  std::int64_t screened = 0, families = 0;  // number of families with bounds, and of all families
  std::int64_t simulated = 0;               // number of plans
  std::int64_t looked_at = 0;               // number of tighter bounds and forecasts
  // The number of plans and families with better bounds than the best result so far. -1: unknown.
  std::int64_t open = -1;
};

struct SearchOptions {
  int best = 5;        // number of plans to rank
  int exact = 0;       // number of ranked plans that are proved; all others are the best simulated
                       // plans; 0: all
  bool pareto = true;  // also find the Pareto front
  int threads = 0;     // threads of this process; 0: one for each core
  // Returns the plan's kind as text. If plans of one kind tie (Tied), only the first is ranked.
  // Null: each plan is ranked.
  std::function<std::string(std::int64_t plan)> kind{};
  // Returns a plan's group, from 0 to `groups` - 1. All plans of a family have the same group. The
  // search begins with the best plan of each group.
  std::function<int(std::int64_t plan)> group{};
  int groups = 0;
  // The scenario's own plan, or -1. The search evaluates this plan first, so that the answer is
  // never worse than this plan. `own_outcome` is this plan's forecast, if known; the plan is then
  // ranked even if the search is stopped.
  std::int64_t own = -1;
  std::optional<Outcome> own_outcome{};
  // Returns whether the search includes a plan, equally for all plans of a family. Null: the search
  // includes all plans.
  std::function<bool(std::int64_t plan)> among{};
  // Called from time to time. If it returns true, the search ends with the results so far.
  std::function<bool()> enough{};
  // Whether the search may be ended early, and therefore looks for good plans first.
  bool anytime = false;
  // Called from time to time. If it returns true, families without bounds are not searched and
  // remain open. Null: `enough` is called instead.
  std::function<bool()> bounded_enough{};
  // Receives the progress from time to time. Never called from two threads at once.
  std::function<void(const SearchProgress&)> progress{};
};

// Illegal plans that have the same error code.
struct IllegalReason {
  std::int64_t count = 0;
  // The number of plans whose first mistake has this message, and the mistake's hint.
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
  std::int64_t best = -1;  // the best plan found; -1: no plan is eligible
  // A lower bound of the time (per token) of all plans in the group, divided by the time of `best`.
  // 1: `best` is optimal.
  double least = 0;
  // If `best` is -1: the plan whose bound lacks the least memory. Otherwise -1.
  std::int64_t nearest = -1;
};

struct SearchResult {
  // The plans ranked by the goal; among equal plans, the plan with the lower index is first. The
  // first SearchOptions::exact plans are proved. With SearchOptions::kind, plans that tie with an
  // earlier plan are omitted; at most kMostRanked plans are considered, so the list may be short.
  // If the search was ended early, these are the best plans found.
  std::vector<std::int64_t> best;
  // For each ranked plan: the simulated plans that tie with it and were omitted, in ascending
  // order.
  std::map<std::int64_t, std::vector<std::int64_t>> ties;
  // The Pareto front of step time (per token), memory and GPUs, ordered by GPUs, then by step time.
  // The front has only the first of equal plans. If the best plan is safe, all plans of the front
  // are safe. The front is empty if it is not requested or not proved.
  std::vector<std::int64_t> pareto;
  // If no plan both fits and meets the deadline: the plans that come closest.
  std::vector<std::int64_t> nearest;
  std::vector<GroupBest> groups;
  // False: the search ended before the ranking was proved. `open` plans may then be better by at
  // most the fraction 1 - `least` of the best plan's time (per token) or goal value.
  bool proved = true;
  std::int64_t open = 0;
  double least = 1;
  PlanStates states;
  std::map<std::int64_t, Outcome> outcomes;  // forecasts of the simulated plans
  // Screened::program, if known, of each plan whose bound was computed from its program.
  std::map<std::int64_t, std::string> programs;
  std::int64_t shared = 0;  // number of simulated plans that share another plan's outcome
  std::map<std::string, IllegalReason> illegal;  // illegal plans, by error code
  std::int64_t sharpened = 0;                    // number of plans with bounds from their programs

  std::int64_t Count(Verdict verdict) const { return states.Count(verdict); }
  // Returns whether plans have different numbers of tokens per step. All comparisons then use the
  // time per token.
  bool UnequalTokens() const { return states.UnequalTokens(); }
};

// The largest number of plans that are considered for the ranking if many plans tie, unless more
// are requested.
inline constexpr int kMostRanked = 64;

// Returns whether two plans of the same kind and tokens tie: their step times differ by at most
// 0.05 %, and `other` saves at most 1 % of memory. `other` must be ranked after `plan`.
bool Tied(const Outcome& plan, const Outcome& other);

// Searches the plans of `answers`. The result does not depend on the number of threads and ranks.
// `known` is null or the result of an earlier search of the same plans, possibly for another goal.
// Errors: the errors of Answers.
tl::expected<SearchResult, std::string> Search(Answers& answers, const Goal& goal,
                                               const SearchOptions& options,
                                               const SearchResult* known = nullptr);
// Searches on the threads of this process.
SearchResult Search(const SearchProblem& problem, const Goal& goal, const SearchOptions& options,
                    const SearchResult* known = nullptr);

// Returns the rejected plans that are closest to the best plan, by bounds or forecasts. Rejection
// reasons alternate, with one plan of each kind. Plans that do not fit are ranked by missing
// memory, preferably those with better bounds than the best plan. Other plans are ranked by the
// goal.
std::vector<std::int64_t> RunnersUp(const SearchResult& result, const Goal& goal, int count,
                                    const std::function<std::string(std::int64_t)>& kind);

// A plan is safe if its probability of fitting is at least kSafeFit and its allocator does not
// flush its cache. Unsafe plans are ranked last: among thousands of plans, the memory of plans that
// just fit is probably underestimated.
inline constexpr double kSafeFit = 0.9;
inline bool IsSafe(const Bound& bound) { return bound.fit_probability >= kSafeFit; }
inline bool IsSafe(const Outcome& outcome) {
  return outcome.flushes == 0 && outcome.fit_probability >= kSafeFit;
}

// Returns whether a plan with this forecast may be ranked: the plan is legal, fits with the
// headroom, and meets the deadline.
bool Eligible(const Goal& goal, const PlanFacts& facts, const Outcome& outcome);

// Returns the memory that must stay free on each of a plan's devices.
Bytes HeadroomOf(const Goal& goal, const PlanFacts& facts);
// Returns the plan's step as the input for training time and cost.
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
