#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/planner/bounds.h"

// Finds the best of many plans without simulating them all, and proves that none was missed
// (docs/planning.md). It knows nothing of plans: bounds and forecasts are functions of a number.
namespace stepcast::planner {

enum class Target : std::uint8_t {
  kStepTime,    // the shortest step
  kThroughput,  // the most tokens per second and GPU
  kGpus,        // the fewest GPUs, then the shortest step
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
  // What devices have more than they do, as a part of it: what if they had?
  double spare_memory = 0;
};

// What is known of a plan before anything is worked out.
struct PlanFacts {
  std::int64_t gpus = 1;
  std::int64_t tokens = 0;  // of a step
  Bytes capacity;           // of a device
};

// What is said of a plan first: it cannot exist, or bounds.
struct Screened {
  std::string illegal_code;  // the first mistake's; empty: it is legal
  std::string illegal_message;
  PlanFacts facts;
  // A plan with a lower number behaves exactly as this one does; it is left out.
  bool same_as_another = false;
  Bound bound;
};

// What a forecast says.
struct Outcome {
  std::string illegal_message{};  // only a price said that it cannot exist; empty else
  Time step_time{};
  double tokens_per_second_per_gpu = 0;
  Bytes memory{};  // the peak
  bool fits = false;
  bool fits_host = true;
  Bytes over{};  // by how much it does not fit
};

struct SearchProblem {
  std::int64_t plans = 0;
  // Called from several threads at once. Bounds never exceed those of later functions.
  std::function<Screened(std::int64_t)> screen;
  std::function<Screened(std::int64_t)> sharpen;
  std::function<Outcome(std::int64_t)> simulate;
};

struct SearchOptions {
  int best = 5;        // how many to rank
  bool pareto = true;  // find the front too
  int threads = 0;     // 0: one for each core
  // Told from time to time; never from two threads at once.
  std::function<void(std::int64_t screened, std::int64_t simulated)> progress{};
};

// How a plan ended.
enum class Fate : std::uint8_t {
  kIllegal,
  kSame,        // another one behaves exactly as it does
  kDoesNotFit,  // by its bound
  kTooSlow,     // cannot meet the deadline, by its bound
  kBound,       // cannot be among the best, and the best plan has no more memory and GPUs
  kDominated,   // another plan is at least as fast, with no more memory and GPUs
  kSimulated,
};
inline constexpr int kFates = 7;
const char* Name(Fate fate);  // "illegal", "does_not_fit", "too_slow", ...

struct IllegalReason {
  std::int64_t count = 0;
  std::string example;
};

struct SearchResult {
  // Ranked by the goal; of equal plans the one with the lower number comes first. Exact: an
  // exhaustive search gives the same.
  std::vector<std::int64_t> best;
  // By GPUs, then step time. No plan that fits (and meets the deadline) is at least as good in step
  // time, memory and GPUs; of equal ones the first. Exact. Empty if not asked for.
  std::vector<std::int64_t> pareto;
  // Without a plan that fits and meets the deadline: those that come nearest.
  std::vector<std::int64_t> nearest;
  std::vector<Fate> fates;                       // by plan
  std::vector<PlanFacts> facts;                  // by plan; of legal ones
  std::vector<Bound> bounds;                     // the sharpest that was worked out
  std::vector<char> sharp;                       // by plan: whether that is of its program
  std::map<std::int64_t, Outcome> outcomes;      // of simulated plans
  std::map<std::string, IllegalReason> illegal;  // by code
  std::int64_t sharpened = 0;                    // whose programs were looked at

  std::int64_t Count(Fate fate) const;
};

// The same on any number of threads. `known`: what an earlier search of the same problem, with
// another goal perhaps, found out; null: nothing.
SearchResult Search(const SearchProblem& problem, const Goal& goal, const SearchOptions& options,
                    const SearchResult* known = nullptr);

// The plans beside the best that would come next by what is known of them, whether they fit or not;
// of each kind only the first.
std::vector<std::int64_t> NearLosers(const SearchResult& result, const Goal& goal, int count,
                                     const std::function<std::string(std::int64_t)>& kind);

// Money for a million tokens, in the price's currency.
double CostOfMillionTokens(const Goal& goal, const PlanFacts& facts, Time step_time);
// How long the training takes; requires goal.tokens.
double TrainingSeconds(const Goal& goal, const PlanFacts& facts, Time step_time);

}  // namespace stepcast::planner
