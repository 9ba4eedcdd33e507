#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/planner/bounds.h"
#include "src/scenario/scenario.h"

// The plans of a search. A plan is identified by its index. Bounds and forecasts can be computed
// for each plan.
namespace stepcast::planner {

// Properties of a plan that are known without an evaluation.
struct PlanFacts {
  std::int64_t gpus = 0;    // 0: not determined yet
  std::int64_t tokens = 0;  // per step
  Bytes capacity;           // per device
  // The number of micro-batch passes through all pipeline stages. The time to compute a forecast is
  // roughly proportional to this number.
  std::int64_t passes = 1;
  double idle_watts = 0;  // power of one GPU while it does not compute
};

// A plan's first evaluation: the reason why it is illegal, or its bounds.
struct Screened {
  std::string illegal_code{};  // code of the first mistake; empty: the plan is legal
  std::string illegal_message{};
  std::string illegal_hint{};  // how to make the plan legal
  PlanFacts facts{};
  // Whether a plan with a lower index behaves identically, so that this plan is omitted.
  bool same_as_another = false;
  // A key of the forecast, if the bound was computed from the plan's program. Only one of the plans
  // with the same key is simulated. Empty: unknown.
  std::string program{};
  Bound bound{};
};

// The figures of a plan's forecast.
struct Outcome {
  std::string illegal_message{};  // if the plan's operations cannot be priced; otherwise empty
  Time step_time{};
  double joules = 0;  // energy of one GPU in a step; 0 without PlanSource::energy
  double tokens_per_second_per_gpu = 0;
  Bytes memory{};  // the allocator's peak of allocated bytes
  // The memory that must fit: `reserved` bytes of the allocator plus `outside` bytes outside it.
  Bytes reserved{}, outside{};
  bool fits = false;
  bool fits_host = true;
  forecast::MemoryVerdict verdict = forecast::MemoryVerdict::kDoesNotFit;
  double fit_probability = 1;
  // The memory that the plan needs beyond the capacity. Negative: free memory.
  Bytes over{};
  // The number of times that the allocator flushes its cache because the device is full.
  int flushes = 0;
};

struct SearchProblem {
  std::int64_t plans = 0;
  // The first plan of each family, in ascending order, starting with plan 0. Empty: each plan is a
  // family.
  std::vector<std::int64_t> families{};
  // Screens a family by its index. The result applies to every plan in the family; the family is
  // illegal only if all its plans are illegal.
  std::function<Screened(std::size_t)> screen_family{};
  // The functions below evaluate one plan and must be thread-safe. A bound never exceeds the bounds
  // and forecasts that later functions return for the same plan.
  std::function<Screened(std::int64_t)> screen;
  std::function<Screened(std::int64_t)> sharpen;
  std::function<Outcome(std::int64_t)> simulate;
};

// A plan's scenario, or the reason why the plan is illegal.
struct LoadedPlan {
  const scenario::Scenario* scenario = nullptr;  // valid until the thread loads another plan
  // The first mistake. Empty if there is a scenario.
  std::string code{}, message{}, hint{};
  // Whether the plan breaks only rules about settings that vary within a family.
  bool by_inner = false;
};

struct PlanSource {
  std::int64_t plans = 0;
  // The result of PlanSpace::families. Empty: each plan is a family.
  std::vector<std::int64_t> families{};
  // Loads a plan. `load` and `load_family` must be thread-safe.
  std::function<LoadedPlan(std::int64_t)> load;
  // Loads the settings that all plans of a family share (PlanSpace::FamilySettings).
  std::function<LoadedPlan(std::int64_t)> load_family{};
  // Returns whether a plan with a lower index differs only in data_parallel.accumulate_unsharded =
  // false.
  std::function<bool(std::int64_t)> has_twin;
  // Returns PlanSpace::KindOf. Null: plans do not share forecasts.
  std::function<std::string(std::int64_t)> kind{};
  // Whether forecasts include the energy, which takes more time to compute.
  bool energy = false;
  // If plan 0 is the scenario's own plan: returns whether another plan equals it.
  std::function<bool(const scenario::Scenario&)> same_as_own{};
};

PlanFacts FactsOf(const scenario::Scenario& scenario);
// Converts a forecast to an Outcome. Outcome::joules is zero if the forecast has no time breakdown.
Outcome OutcomeOf(const scenario::Scenario& scenario, const forecast::Forecast& forecast);

// Returns the problem of searching these plans. `source` must outlive the problem.
SearchProblem ProblemOf(const PlanSource& source);

}  // namespace stepcast::planner
