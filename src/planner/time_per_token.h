#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/time.h"

// Compares steps of unequal tokens.
namespace stepcast::planner {

// An exact fraction. Among steps of as many tokens its order is that of their times.
struct TimePerToken {
  std::int64_t time = 0;  // of a step, picoseconds
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

}  // namespace stepcast::planner
