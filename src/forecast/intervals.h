#pragma once

#include <span>
#include <vector>

#include "src/base/time.h"

// Sets of instants, as sorted, disjoint, half-open intervals.
namespace stepcast::forecast {

struct Interval {
  Time start, end;
  friend bool operator==(const Interval&, const Interval&) = default;
};

using Intervals = std::vector<Interval>;

// Appends to a list that need not be a union. Touching intervals are joined, since successive
// operations mostly touch.
inline void Append(const Interval& interval, Intervals& to) {
  if (!to.empty() && interval.start == to.back().end && interval.end >= interval.start) {
    to.back().end = interval.end;
  } else {
    to.push_back(interval);
  }
}

// Sorts, removes empty intervals, and joins those that touch or overlap.
Intervals Union(Intervals intervals);

// The instants in both; both arguments must be unions.
Intervals Intersection(std::span<const Interval> a, std::span<const Interval> b);

// The instants in a and not in b; both arguments must be unions.
Intervals Difference(std::span<const Interval> a, std::span<const Interval> b);

Time Length(std::span<const Interval> intervals);

}  // namespace stepcast::forecast
