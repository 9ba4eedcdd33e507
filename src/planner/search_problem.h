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

// A plan's first evaluation: it is illegal, or its bounds.
struct Screened {
  std::string illegal_code{};  // the first mistake's; empty: it is legal
  std::string illegal_message{};
  std::string illegal_hint{};  // what would make it legal
  PlanFacts facts{};
  // A plan with a lower number behaves exactly as this one does; it is left out.
  bool same_as_another = false;
  // Of a plan whose program was bounded: equal for plans that have equal forecasts, so that one of
  // them stands for all. Empty: unlike any other.
  std::string program{};
  Bound bound{};
};

// A forecast's figures.
struct Outcome {
  std::string illegal_message{};  // illegal by its prices; empty else
  Time step_time{};
  double tokens_per_second_per_gpu = 0;
  Bytes memory{};  // the peak of what the allocator hands out
  // They decide whether it fits: what the allocator holds, and what is beside it.
  Bytes reserved{}, outside{};
  bool fits = false;
  bool fits_host = true;
  forecast::MemoryVerdict verdict = forecast::MemoryVerdict::kDoesNotFit;
  double fit_probability = 1;
  // How much more it needs than there is; where it fits: negative, so much of the device stays
  // free.
  Bytes over{};
  // How often the allocator flushes its cache because the device is full.
  int flushes = 0;
};

struct SearchProblem {
  std::int64_t plans = 0;
  // The first plan of each family, ascending, plan 0 among them; empty: each plan is one.
  std::vector<std::int64_t> families{};
  // Of families of several plans, by their place in the list: what holds for each plan of one. It
  // is illegal if all of them are.
  std::function<Screened(std::size_t)> screen_family{};
  // Of plans. All are called from several threads at once. Bounds never exceed those of later
  // functions.
  std::function<Screened(std::int64_t)> screen;
  std::function<Screened(std::int64_t)> sharpen;
  std::function<Outcome(std::int64_t)> simulate;
};

}  // namespace stepcast::planner
