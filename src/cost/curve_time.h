#pragma once

#include <span>

#include "src/calibration/collective_curves.h"
#include "src/cost/demand.h"

// Times of collectives between the sizes that were measured: the logarithm of the time over the
// logarithm of the size, as a cubic through each two neighbours that rises wherever the points rise
// (Fritsch and Carlson 1980, "Monotone piecewise cubic interpolation", with harmonic means of the
// neighbouring slopes). On logarithmic axes a start-up cost, a rate, and what lies between them are
// all nearly straight.
//
//   at a point            its time                                            measured
//   between two points    the cubic                                           interpolated
//   below the first       its time: start-up costs rule there                 extrapolated
//   beyond the last       its rate: t = t_last S / S_last                     extrapolated
namespace stepcast::cost {

struct CurveTime {
  double microseconds = 0;
  Provenance provenance = Provenance::kMeasured;
};

// Requires ascending points, at least one, sizes and times above zero.
CurveTime TimeOnCurve(std::span<const calibration::TimePoint> points, double bytes);

}  // namespace stepcast::cost
