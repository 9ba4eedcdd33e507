#include "src/cost/sustained_clock.h"

#include <algorithm>
#include <cmath>

namespace stepcast::cost {

double SustainedClock(const calibration::PowerDraw& power, double limit_watts) {
  if (power.products == 0 || limit_watts == 0) return 1;
  const double part = (limit_watts - power.idle) / power.products;
  return part >= 1 ? 1 : std::cbrt(std::max(part, 1e-3));
}

double ArithmeticLimit(const calibration::PowerDraw& power, double limit_watts,
                       const MicroBatchDraw& draw) {
  const bool known = power.products != 0 && power.memory != 0 && limit_watts != 0;
  if (!known || draw.at_best <= 0 || power.memory >= limit_watts) return limit_watts;
  // With P B what products draw at full clock, as energy: the mean is the limit where
  // P B c^3 = (L - W) M c + (L - idle) A.
  const double cubic = power.products * draw.at_best;
  const double spared = (limit_watts - power.memory) * draw.other;
  const double allowed =
      std::max(limit_watts - power.idle, 1e-3 * power.products) * draw.arithmetic;
  double clock = 1;
  if (cubic > spared + allowed) {
    // Newton's method from above a root of a function that is convex there: it never passes it.
    for (;;) {
      const double above = cubic * clock * clock * clock - spared * clock - allowed;
      const double next = clock - above / (3 * cubic * clock * clock - spared);
      if (!(next < clock)) break;
      clock = next;
    }
  }
  return limit_watts + spared * clock / draw.arithmetic;
}

}  // namespace stepcast::cost
