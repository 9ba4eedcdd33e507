#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/planner/search.h"

namespace stepcast::planner {

// Compares steps that have different numbers of tokens.

// The time per token as an exact fraction.
struct TimePerToken {
  std::int64_t time = 0;  // step time in picoseconds
  std::int64_t tokens = 1;

  static TimePerToken Of(Time step_time, std::int64_t tokens) {
    return {step_time.picoseconds(), std::max<std::int64_t>(1, tokens)};
  }

  double picoseconds() const { return static_cast<double>(time) / static_cast<double>(tokens); }
  __extension__ using Wide = __int128;
  friend bool operator<(const TimePerToken& a, const TimePerToken& b) {
    return Wide{a.time} * b.tokens < Wide{b.time} * a.tokens;
  }
};

// Scores and Pareto dominance of plans.

TimePerToken TimePerTokenOf(const PlanFacts& facts, Time step_time);

struct Score {
  bool behind = false;  // the plan is not safe (IsSafe), so it is ranked after all safe plans
  double first = 0;
  TimePerToken time_per_token{};
  std::int64_t memory = 0;
  std::int64_t plan = 0;

  auto Tie() const { return std::tie(behind, first, time_per_token, memory, plan); }
  friend bool operator<(const Score& a, const Score& b) { return a.Tie() < b.Tie(); }
  friend bool operator>(const Score& a, const Score& b) { return b < a; }
};

// Returns the value that the goal minimizes.
double MeasureOf(const Score& score);

struct Point {
  TimePerToken time_per_token{};
  std::int64_t memory = 0, gpus = 0;
  std::int64_t plan = 0;
};

// Returns whether `a` is at least as good as `b` in every respect, and better in at least one. If
// `a` and `b` are equal, the lower plan index is better. If `b` is a bound, `a` then dominates
// every plan with that bound.
bool Dominates(const Point& a, const Point& b);
// Returns whether a point of the front dominates `point`.
bool IsDominated(const Point& point, const std::vector<Point>& front);
// Adds `point` unless the front dominates `point`. Removes the points that `point` dominates.
void AddToFront(const Point& point, std::vector<Point>& front);

// Returns whether a plan fits with the required headroom and, for a what-if, the additional memory.
bool FitsWith(const Goal& goal, const PlanFacts& facts, bool fits, bool fits_host, Bytes over);

double GpuSecondsPerToken(const PlanFacts& facts, Time step_time);

// Returns the plan's score for the goal; smaller is better. `joules`: Outcome::joules.
Score ScoreOf(const Goal& goal, const PlanFacts& facts, std::int64_t plan, Time step_time,
              Bytes memory, double joules);

}  // namespace stepcast::planner
