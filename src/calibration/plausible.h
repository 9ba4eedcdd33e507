#pragma once

#include <string>
#include <vector>

#include "src/calibration/calibration.h"

namespace stepcast::calibration {

// A value in a profile that is impossible on every machine.
struct Fault {
  std::string field;  // as in the file: "kernels.gemm.bf16.max_efficiency",
                      // "collectives[2].points[3]"
  std::string message;
  std::string hint;
};

// Returns all implausible values of a profile. Empty if the profile can be used.
// - Efficiencies are in (0, 1]; if kernels were measured they may be missing.
// - Times are not negative, and short: a kernel's start at most 1 ms; a launch, a hop or a base at
//   most 100 ms. Longer ones have a wrong unit.
// - Memory sizes are not negative and below 1 TiB.
// - Sizes of the points of tables and curves are positive and strictly ascending; times are
//   positive. A larger size may take a little less time (measurements scatter), but at least 80 %
//   of the longest time before it.
// - A table is over at least two ranks, on at least one node and at most one node per rank. It has
//   at least one point; quantiles, if any, are one ascending pair per point.
// - Sizes and times of a surface are positive.
// - Slowdowns are between 0.5 and 1000.
// - No two tables share (collective, ranks, nodes).
std::vector<Fault> Check(const Calibration& calibration);

}  // namespace stepcast::calibration
