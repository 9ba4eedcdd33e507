#pragma once

#include <span>
#include <vector>

#include "src/base/time.h"

// Sets of instants as sorted, disjoint half-open intervals.
namespace stepcast::forecast {

struct Interval {
  Time start, end;
  friend bool operator==(const Interval&, const Interval&) = default;
};

using Intervals = std::vector<Interval>;

// Adds one to a list that is not a union yet; those that touch are joined, as operations in a row
// mostly do.
inline void Append(const Interval& interval, Intervals& to) {
  if (!to.empty() && interval.start == to.back().end && interval.end >= interval.start) {
    to.back().end = interval.end;
  } else {
    to.push_back(interval);
  }
}

// Sorts, drops empty ones, joins those that touch or overlap.
Intervals Union(Intervals intervals);

// Instants in both; both arguments are unions.
Intervals Intersection(std::span<const Interval> a, std::span<const Interval> b);

// Instants in a and not in b; both arguments are unions.
Intervals Difference(std::span<const Interval> a, std::span<const Interval> b);

Time Length(std::span<const Interval> intervals);

}  // namespace stepcast::forecast
