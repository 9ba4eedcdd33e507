#pragma once

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"

// Measured times of collectives, interpolated between the measured sizes.
//
//   at a point            its time                                              measured
//   between two points    linear in time over the logarithm of the size:        interpolated
//                         t = t0 + (t1 - t0) ln(S / S0) / ln(S1 / S0)
//   below the first       its time: start-up costs rule there                   extrapolated
//   beyond the last       its bandwidth: t = t_last S / S_last                  extrapolated
//
// A time that is no whole picosecond rounds up.
namespace stepcast::cost {

struct TableTime {
  Time time;
  Provenance provenance = Provenance::kMeasured;
};

// Requires a table that satisfies calibration::Check, and bytes >= 0.
TableTime TimeFromTable(const calibration::CollectiveTable& table, Bytes bytes);

}  // namespace stepcast::cost
