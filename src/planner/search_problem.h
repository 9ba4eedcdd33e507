#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/planner/bounds.h"

// Plans as a search sees them: numbers with bounds and forecasts.
namespace stepcast::planner {

// A plan's figures that need no computation.
struct PlanFacts {
  std::int64_t gpus = 0;  // 0: not looked at
  std::int64_t tokens = 0;  // of a step
  Bytes capacity;           // of a device
  // Passes of micro-batches through the pipeline's stages: the time of a forecast grows with them.
  std::int64_t passes = 1;
};

// A plan's first evaluation: illegal, or its bounds.
struct Screened {
  std::string illegal_code{};  // the first mistake's; empty: it is legal
  std::string illegal_message{};
  std::string illegal_hint{};  // what would make it legal
  PlanFacts facts{};
  // A plan with a lower number behaves identically; this one is left out.
  bool same_as_another = false;
  // For a plan whose program was bounded: equal for plans with equal forecasts, so one forecast
  // serves all. Empty: no known equal.
  std::string program{};
  Bound bound{};
};

// A forecast's figures.
struct Outcome {
  std::string illegal_message{};  // if illegal by its prices; otherwise empty
  Time step_time{};
  double tokens_per_second_per_gpu = 0;
  Bytes memory{};  // the allocator's peak of allocated bytes
  // These decide whether it fits: memory held by the allocator, and memory outside it.
  Bytes reserved{}, outside{};
  bool fits = false;
  bool fits_host = true;
  forecast::MemoryVerdict verdict = forecast::MemoryVerdict::kDoesNotFit;
  double fit_probability = 1;
  // Memory needed beyond the capacity; if negative, the amount that stays free.
  Bytes over{};
  // How often the allocator flushes its cache because the device is full.
  int flushes = 0;
};

struct SearchProblem {
  std::int64_t plans = 0;
  // The first plan of each family, ascending, starting with plan 0; empty: each plan is a family.
  std::vector<std::int64_t> families{};
  // For a family of several plans, by index: properties of every plan in it. It is illegal if all
  // of them are.
  std::function<Screened(std::size_t)> screen_family{};
  // Per plan. All functions must be thread-safe. Bounds never exceed those of later functions.
  std::function<Screened(std::int64_t)> screen;
  std::function<Screened(std::int64_t)> sharpen;
  std::function<Outcome(std::int64_t)> simulate;
};

}  // namespace stepcast::planner
