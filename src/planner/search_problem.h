#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/planner/bounds.h"

// Plans as a search sees them: numbers, of which bounds and forecasts can be asked.
namespace stepcast::planner {

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
  // Of a plan whose program was looked at: equal for plans that have equal forecasts, so that one
  // of them stands for all. Empty: unlike any other.
  std::string program;
  Bound bound;
};

// What a forecast says.
struct Outcome {
  std::string illegal_message{};  // only a price said that it cannot exist; empty else
  Time step_time{};
  double tokens_per_second_per_gpu = 0;
  Bytes memory{};  // the peak of what the allocator hands out
  // What decides whether it fits: what the allocator holds, and what is beside it.
  Bytes reserved{}, outside{};
  bool fits = false;
  bool fits_host = true;
  // How much more it needs than there is; where it fits: negative, so much of the device stays
  // free.
  Bytes over{};
  // How often the allocator gives back what it has and begins anew because it has run out.
  int flushes = 0;
};

struct SearchProblem {
  std::int64_t plans = 0;
  // Called from several threads at once. Bounds never exceed those of later functions.
  std::function<Screened(std::int64_t)> screen;
  std::function<Screened(std::int64_t)> sharpen;
  std::function<Outcome(std::int64_t)> simulate;
};

}  // namespace stepcast::planner
