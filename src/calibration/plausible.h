#pragma once

#include <string>
#include <vector>

#include "src/calibration/calibration.h"

namespace stepcast::calibration {

// An impossible value in a profile.
struct Fault {
  std::string field;  // as in the file: "kernels.gemm.bf16.max_efficiency"
  std::string message;
  std::string hint;
};

// Returns all implausible values of a profile. Empty if the profile can be used. Conditions:
//   - Efficiencies are in (0, 1]. If kernels were measured, efficiencies may be missing.
//   - Times are not negative. A kernel's start is at most 1 ms; a launch, a hop or a base is at
//     most 100 ms. A longer time probably has a wrong unit.
//   - Memory sizes are not negative and below 1 TiB.
//   - In tables and curves, sizes are positive and strictly ascending, and times are positive.
//     Because measurements vary, a time may be as low as 80 % of the longest time at smaller sizes.
//   - A table has at least two ranks, one node and one point, and at most one node per rank.
//     Quantiles, if present, are one ascending pair per point.
//   - Sizes and times of a surface are positive.
//   - Slowdowns are between 0.5 and 1000.
//   - No two tables have the same collective, ranks and nodes.
std::vector<Fault> Check(const Calibration& calibration);

}  // namespace stepcast::calibration
