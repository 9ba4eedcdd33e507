#include "src/forecast/intervals.h"

#include <algorithm>
#include <utility>

namespace stepcast::forecast {

Intervals Union(Intervals intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.end <= i.start; });
  const auto by_start = [](const Interval& a, const Interval& b) { return a.start < b.start; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_start)) {
    std::sort(intervals.begin(), intervals.end(), by_start);
  }
  std::size_t joined = 0;
  for (const Interval& interval : intervals) {
    if (joined > 0 && interval.start <= intervals[joined - 1].end) {
      intervals[joined - 1].end = std::max(intervals[joined - 1].end, interval.end);
    } else {
      intervals[joined++] = interval;
    }
  }
  intervals.resize(joined);
  return intervals;
}

Intervals Intersection(std::span<const Interval> a, std::span<const Interval> b) {
  Intervals result;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Interval both{std::max(a[i].start, b[j].start), std::min(a[i].end, b[j].end)};
    if (both.start < both.end) result.push_back(both);
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return result;
}

Intervals Difference(std::span<const Interval> a, std::span<const Interval> b) {
  Intervals result;
  std::size_t j = 0;
  for (const Interval& interval : a) {
    while (j < b.size() && b[j].end <= interval.start) ++j;
    Time from = interval.start;
    for (std::size_t k = j; k < b.size() && b[k].start < interval.end; ++k) {
      if (from < b[k].start) result.push_back({from, b[k].start});
      from = std::max(from, b[k].end);
    }
    if (from < interval.end) result.push_back({from, interval.end});
  }
  return result;
}

Time Length(std::span<const Interval> intervals) {
  Time length;
  for (const Interval& interval : intervals) length += interval.end - interval.start;
  return length;
}

}  // namespace stepcast::forecast
