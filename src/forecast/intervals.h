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

// Sorts, drops empty ones, joins those that touch or overlap.
Intervals Union(Intervals intervals);

// Instants in both; both arguments are unions.
Intervals Intersection(std::span<const Interval> a, std::span<const Interval> b);

// Instants in a and not in b; both arguments are unions.
Intervals Difference(std::span<const Interval> a, std::span<const Interval> b);

Time Length(std::span<const Interval> intervals);

}  // namespace stepcast::forecast
