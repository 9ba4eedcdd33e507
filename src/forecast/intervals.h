#pragma once

#include <span>
#include <vector>

#include "src/base/time.h"

// Sets of points in time: sorted, disjoint, half-open intervals.
namespace stepcast::forecast {

struct Interval {
  Time start, end;
  friend bool operator==(const Interval&, const Interval&) = default;
};

using Intervals = std::vector<Interval>;

// Appends an interval to a list, which may be unsorted and overlapping. If the interval touches the
// last interval, joins the two.
inline void Append(const Interval& interval, Intervals& to) {
  if (!to.empty() && interval.start == to.back().end && interval.end >= interval.start) {
    to.back().end = interval.end;
  } else {
    to.push_back(interval);
  }
}

// Returns the union of the intervals: sorted, not empty, neither touching nor overlapping.
Intervals Union(Intervals intervals);

// Returns the times that are in both `a` and `b`, which must be unions.
Intervals Intersection(std::span<const Interval> a, std::span<const Interval> b);

// Returns the times that are in `a` but not in `b`. `a` and `b` must be unions.
Intervals Difference(std::span<const Interval> a, std::span<const Interval> b);

Time Length(std::span<const Interval> intervals);

}  // namespace stepcast::forecast
