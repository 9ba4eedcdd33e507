#pragma once

#include <cstddef>

#include "src/base/time.h"
#include "src/calibrate/statistics.h"

// How often something is measured.
namespace stepcast::calibrate {

struct Repetition {
  std::size_t least = 5;
  std::size_t most = 200;
  double uncertainty = 0.01;  // of the median, relative, at which it is known well enough
  Time limit = Seconds(1);    // device time spent on one point, unless `least` takes longer
  bool briefly = false;       // time is short: a quarter of the limit, long operations less often
};

// Whether a point that was measured so far with this result, in `spent` of device time, is done.
bool Enough(const Repetition& repetition, const Summary& so_far, Time spent);

// How many more repetitions to ask for at once, at least 1: what the uncertainty reached suggests,
// within the limits, and at most as many as there were (the first ones may mislead).
std::size_t NextBatch(const Repetition& repetition, const Summary& so_far, Time spent);

}  // namespace stepcast::calibrate
