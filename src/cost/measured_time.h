#pragma once

#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"

// Measured times of kernels and copies, read between the measured points. Attention has three sizes
// of its own: attention_time.h.
//
// Curves
//   at a point            its time                                              measured
//   between two points    linear in time over the size: exact for a start-up    interpolated
//                         cost and a rate
//   below the first       its time: start-up costs rule there                   extrapolated
//   beyond the last       the rate between the last and the largest that is      extrapolated
//                         four times smaller; without one, t = t_last x / x_last
//
// Surfaces of matrix products
//   on the grid           its time                                              measured
//   inside                trilinear: the logarithm of the throughput 2 m n k / t over the
//                         logarithms of m, n and k                              interpolated
//   outside               per axis: below the first value as on it, in the same time; beyond the
//                         last at the throughput on it                          extrapolated
//
// Times that are no whole picosecond round up. Curves and surfaces satisfy calibration::Check and
// are not empty; sizes are not negative.
namespace stepcast::cost {

struct MeasuredTime {
  Time time;
  Provenance provenance = Provenance::kMeasured;
};

MeasuredTime TimeFromCurve(const calibration::Curve& curve, Bytes bytes);
MeasuredTime TimeFromSurface(const calibration::GemmSurface& surface, std::int64_t m,
                             std::int64_t n, std::int64_t k);

// A measured time as a demand: the start-up part is latency, and only the rest is work.
// `latency_counts` false leaves the latency out, as textbook programs do.
Demand DemandOf(const MeasuredTime& measured, Time start_latency, bool latency_counts);

}  // namespace stepcast::cost
