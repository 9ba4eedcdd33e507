#pragma once

#include <cstdint>
#include <tuple>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/planner/search.h"

// How plans are compared.
namespace stepcast::planner {

// Time for a token, as an exact fraction. Among plans of as many tokens a step its order is that of
// their step times.
struct Pace {
  std::int64_t time = 0;  // of a step, picoseconds
  std::int64_t tokens = 1;

  double value() const { return static_cast<double>(time) / static_cast<double>(tokens); }
  __extension__ using Wide = __int128;
  friend bool operator<(const Pace& a, const Pace& b) {
    return Wide{a.time} * b.tokens < Wide{b.time} * a.tokens;
  }
};

Pace PaceOf(const PlanFacts& facts, Time step_time);

struct Score {
  double first = 0;
  Pace pace{};
  std::int64_t memory = 0;
  std::int64_t plan = 0;

  auto Tie() const { return std::tie(first, pace, memory, plan); }
  friend bool operator<(const Score& a, const Score& b) { return a.Tie() < b.Tie(); }
  friend bool operator>(const Score& a, const Score& b) { return b < a; }
};

struct Point {
  Pace pace{};
  std::int64_t memory = 0, gpus = 0;
  std::int64_t plan = 0;
};

// `a` is at least as good in everything, and better in something or the first of equals. What
// dominates a bound dominates whatever is no better than the bound.
bool Dominates(const Point& a, const Point& b);

double GpuSecondsPerToken(const PlanFacts& facts, Time step_time);

// By the goal; smaller is better.
Score ScoreOf(const Goal& goal, const PlanFacts& facts, std::int64_t plan, Time step_time,
              Bytes memory);

}  // namespace stepcast::planner
