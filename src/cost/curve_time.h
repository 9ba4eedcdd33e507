#pragma once

#include <span>

#include "src/calibration/collective_curves.h"
#include "src/cost/demand.h"

// Times of collectives between the measured sizes of a curve. The time is the modeled time
// (CollectiveLaw, here "law") multiplied by a factor measured / modeled. Between sizes, the
// logarithm of the factor is linear in the logarithm of the size (provenance kInterpolated). Beyond
// the first and last sizes, the factor is constant (provenance kExtrapolated).
//
// An alternative is a monotone cubic through the measured times. The factor and the cubic were
// tested by omitting each inner fit point of calibration/collectives in turn (195 points). The
// median error is 2.0 % (cubic: 2.7 %), and 90 % of the errors are at most 15.2 % (cubic: 16.5 %).
// If the largest size is omitted, the error is 0.9 % (constant rate: 1.7 %). If the smallest size
// is omitted, the error is 9 % (constant time: 55 %).
namespace stepcast::cost {

struct CurveFactor {
  double factor = 1;  // measured time divided by modeled time
  Provenance provenance = Provenance::kMeasured;
};

// Returns the factor for `bytes` bytes. `law` contains the modeled time of each point, in
// microseconds. Requires at least one point, ascending sizes, and positive sizes and times.
CurveFactor FactorOnCurve(std::span<const calibration::TimePoint> points,
                          std::span<const double> law, double bytes);

}  // namespace stepcast::cost
