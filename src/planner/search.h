#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/planner/answers.h"
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
  // Training must see `tokens` within `deadline`: both or neither.
  std::optional<Time> deadline;
  double tokens = 0;
  double gpu_hour_price = 0;  // kCost: in any currency
  // For a what-if: additional device memory, as a fraction of it.
  double spare_memory = 0;
  // Memory that must stay free on each device: so much, and such a fraction of it.
  Bytes headroom{};
  double headroom_part = 0;
};

struct SearchOptions {
  int best = 5;        // how many to rank
  bool pareto = true;  // find the front too
  int threads = 0;     // of this process; 0: one for each core
  // Equal for plans that differ only in settings that may make no difference: of such plans that
  // tie (Tied) only the first is ranked. Null: each is ranked by itself.
  std::function<std::string(std::int64_t plan)> kind{};
  // Told from time to time; never from two threads at once.
  std::function<void(std::int64_t screened, std::int64_t simulated)> progress{};
};

// The search's verdict on a plan.
enum class Verdict : std::uint8_t {
  kIllegal,
  kSame,        // another one behaves exactly as it does
  kDoesNotFit,  // by its bound
  kTooSlow,     // cannot meet the deadline, by its bound
  kBound,       // cannot be among the best, and the best plan has no more memory and GPUs
  kDominated,   // another plan is at least as fast, with no more memory and GPUs
  kSimulated,
};
inline constexpr int kVerdicts = 7;
const char* Name(Verdict verdict);  // "illegal", "does_not_fit", "too_slow", ...

// Illegal plans of one code, by the message of their first mistake.
struct IllegalReason {
  std::int64_t count = 0;
  std::map<std::string, std::int64_t> messages;  // how many plans have each

  void Add(const std::string& message) {
    ++count;
    ++messages[message];
  }
};

struct SearchResult {
  // Ranked by the goal; of equal plans the one with the lower number comes first. Exact: an
  // exhaustive search gives the same. With SearchOptions::kind, plans that tie with one before them
  // are left out, and where kMostRanked plans are fewer than requested without these, they are all
  // that is ranked.
  std::vector<std::int64_t> best;
  // By ranked plan: its ties, which were left out, of all that were simulated; ascending.
  std::map<std::int64_t, std::vector<std::int64_t>> ties;
  // By GPUs, then step time (for a token). No plan that may be the best is at least as good in step
  // time (for a token), memory and GPUs; of equal ones the first. Plans whose allocator flushes are
  // on it only where that of the best does. Exact. Empty if not requested.
  std::vector<std::int64_t> pareto;
  // Without a plan that fits and meets the deadline: those that come nearest.
  std::vector<std::int64_t> nearest;
  std::vector<Verdict> verdicts;             // by plan
  std::vector<PlanFacts> facts;              // by plan; of legal ones
  std::vector<Bound> bounds;                 // the sharpest that was computed
  std::vector<char> sharp;                   // by plan: whether that is of its program
  std::map<std::int64_t, Outcome> outcomes;  // of simulated plans
  // Screened::program of plans with sharp bounds, where it is known.
  std::map<std::int64_t, std::string> programs;
  std::int64_t shared = 0;  // of simulated plans: those that have another's outcome
  std::map<std::string, IllegalReason> illegal;  // by code
  std::int64_t sharpened = 0;                    // plans with bounds from their programs

  std::int64_t Count(Verdict verdict) const;
  // Whether steps of some plans have more tokens than those of others: step times alone then say
  // little, and whatever is ranked or compared by time is so by that of a token.
  bool UnequalTokens() const;
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

// Whether a plan with this forecast may be the best, and on the front: it can exist, fits with what
// must stay free, and meets the deadline. (Of such plans those whose allocator flushes come last.)
bool Eligible(const Goal& goal, const PlanFacts& facts, const Outcome& outcome);

// Memory that must stay free on a plan's devices.
Bytes HeadroomOf(const Goal& goal, const PlanFacts& facts);
// Money for a million tokens, in the price's currency.
double CostOfMillionTokens(const Goal& goal, const PlanFacts& facts, Time step_time);
// How long the training takes; requires goal.tokens.
double TrainingSeconds(const Goal& goal, const PlanFacts& facts, Time step_time);

}  // namespace stepcast::planner
