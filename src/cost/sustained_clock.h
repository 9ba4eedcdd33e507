#pragma once

#include "src/calibration/calibration.h"

// How fast a board's power lets products and attention run for as long as training takes.
//
// Dynamic power goes with frequency times voltage squared, and voltage with frequency, so a device
// that would draw `idle + products` at full clock and may draw `limit` runs at the cube root of
// (limit - idle) / products.
//
// What is held to the limit L is the mean over kernels that take turns within milliseconds. Where
// those that memory bounds draw W < L, they leave the others
//
//   L + (L - W) M / (A / c)
//
//   A  time of products and attention at full clock, A / c at the clock c that they then hold
//   M  time of everything else, whatever the clock
//
// (calibration/h100-sxm.yaml has the measurement.) What a device draws while it waits for others is
// not counted.
namespace stepcast::cost {

// The part of its clock that the device holds: at most 1; 1 where the profile or the data sheet is
// silent (limit_watts = 0).
double SustainedClock(const calibration::PowerDraw& power, double limit_watts);

// A micro-batch in seconds, at full clock. Only their ratios matter.
struct MicroBatchDraw {
  double arithmetic = 0;  // A
  double at_best = 0;     // that its flops take at the rate of the best products; at most A
  double other = 0;       // M
};

// Watts that products and attention may draw while they run; the limit where the profile does not
// say what kernels draw that memory bounds.
double ArithmeticLimit(const calibration::PowerDraw& power, double limit_watts,
                       const MicroBatchDraw& draw);

}  // namespace stepcast::cost
