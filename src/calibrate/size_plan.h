#pragma once

#include <cstdint>
#include <utility>
#include <vector>

// Which sizes of an operation are measured in the time that there is, and in which order.
//
// The smallest come first and tell what larger ones may take. Then comes the largest whose table
// fits in the time, so that no size below it is ever extrapolated, and what it really takes is
// known early. Then the widest gap between neighbours is halved again and again: however soon the
// time is up, what was measured covers the whole range evenly.
namespace stepcast::calibrate {

// Size and seconds, ascending.
using MeasuredSizes = std::vector<std::pair<std::int64_t, double>>;

struct SizePlan {
  std::vector<std::int64_t> sizes;  // ascending, all that would be measured in enough time
  std::size_t first = 2;            // how many of the smallest come first, together
  double longest = 0;               // seconds; no size that is expected to take longer
  double program = 0;  // seconds that a program takes beside what it measures, to be set up
};

struct NextSizes {
  std::vector<std::int64_t> sizes;  // none: the plan is done
  double expected = 0;              // seconds, of the longest of them
  bool briefly = false;             // time is short: long operations are repeated less
};

// How often an operation of so many seconds is run at least, of `least` that a short one is.
std::size_t LeastRuns(std::size_t least, double seconds, bool briefly);

// An operation this long is not warmed up: its own beginning is a small part of it.
constexpr double kNeedsNoWarmup = 1;  // seconds

// The sizes to measure after `measured`, when `left` seconds are left. Requires that `measured` is
// empty or holds the first sizes.
NextSizes Next(const SizePlan& plan, std::size_t least, const MeasuredSizes& measured, double left);

}  // namespace stepcast::calibrate
