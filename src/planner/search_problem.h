#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/planner/bounds.h"
#include "src/scenario/scenario.h"

// Plans as a search sees them: numbers with bounds and forecasts.
namespace stepcast::planner {

// Properties of a plan that need no computation.
struct PlanFacts {
  std::int64_t gpus = 0;    // 0: not determined yet
  std::int64_t tokens = 0;  // per step
  Bytes capacity;           // per device
  // Number of passes of micro-batches through the pipeline's stages; the cost of a forecast grows
  // with it.
  std::int64_t passes = 1;
  double idle_watts = 0;  // power of one GPU while it does not compute
};

// A plan's first evaluation: illegal, or its bounds.
struct Screened {
  std::string illegal_code{};  // code of the first mistake; empty: the plan is legal
  std::string illegal_message{};
  std::string illegal_hint{};  // what would make the plan legal
  PlanFacts facts{};
  // Whether a plan with a lower number behaves identically, so that this plan is omitted.
  bool same_as_another = false;
  // For a plan whose program was bounded: a text that is equal for plans with equal forecasts, so
  // that one forecast serves all of them. Empty: no plan is known to be equal.
  std::string program{};
  Bound bound{};
};

// A forecast's figures.
struct Outcome {
  std::string illegal_message{};  // if the plan is illegal by its prices; otherwise empty
  Time step_time{};
  double joules = 0;  // energy of one GPU in a step; 0 without PlanSource::energy
  double tokens_per_second_per_gpu = 0;
  Bytes memory{};  // the allocator's peak of allocated bytes
  // The memory that decides whether the plan fits: bytes reserved by the allocator, and bytes
  // outside the allocator.
  Bytes reserved{}, outside{};
  bool fits = false;
  bool fits_host = true;
  forecast::MemoryVerdict verdict = forecast::MemoryVerdict::kDoesNotFit;
  double fit_probability = 1;
  // Memory needed beyond the capacity; if negative, the amount that stays free.
  Bytes over{};
  // Number of times that the allocator flushes its cache because the device is full.
  int flushes = 0;
};

struct SearchProblem {
  std::int64_t plans = 0;
  // The first plan of each family, ascending, starting with plan 0; empty: each plan is a family.
  std::vector<std::int64_t> families{};
  // Screens a family of several plans, given its index. The result describes properties that hold
  // for every plan in the family. The family is illegal if all its plans are.
  std::function<Screened(std::size_t)> screen_family{};
  // These functions evaluate single plans. All functions must be thread-safe. A bound never exceeds
  // the bounds of later functions.
  std::function<Screened(std::int64_t)> screen;
  std::function<Screened(std::int64_t)> sharpen;
  std::function<Outcome(std::int64_t)> simulate;
};

// Plans as a search sees them: numbers with bounds and forecasts.

// A plan's scenario, or the reason why the plan is illegal.
struct LoadedPlan {
  const scenario::Scenario* scenario = nullptr;  // valid until the thread loads another plan
  // The first mistake; empty if there is a scenario.
  std::string code{}, message{}, hint{};
  // Whether only rules about settings that vary within a family are broken.
  bool by_inner = false;
};

struct PlanSource {
  std::int64_t plans = 0;
  // PlanSpace::families; empty: each plan is a family.
  std::vector<std::int64_t> families{};
  // Loads a plan. Thread-safe, like the next function.
  std::function<LoadedPlan(std::int64_t)> load;
  // Loads the settings that all plans of a plan's family share (PlanSpace::FamilySettings).
  std::function<LoadedPlan(std::int64_t)> load_family{};
  // Whether there is a plan with a lower number that differs only in
  // data_parallel.accumulate_unsharded, which is false in that plan.
  std::function<bool(std::int64_t)> has_twin;
  // Returns a text that is equal for plans that differ only in settings of data parallelism, except
  // framework and stage. Null: forecasts are not shared between plans.
  std::function<std::string(std::int64_t)> kind{};
  // Whether forecasts include the energy, for which they take longer.
  bool energy = false;
  // If plan 0 is the scenario's own: its forecast, if known, and a function that tells whether
  // another plan equals it.
  std::optional<Outcome> own{};
  std::function<bool(const scenario::Scenario&)> same_as_own{};
};

PlanFacts FactsOf(const scenario::Scenario& scenario);
// Outcome::joules is zero if the forecast has no time breakdown.
Outcome OutcomeOf(const scenario::Scenario& scenario, const forecast::Forecast& forecast);

// `source` must outlive the problem.
SearchProblem ProblemOf(const PlanSource& source);

}  // namespace stepcast::planner
