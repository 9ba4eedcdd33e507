#include "src/calibrate/repetition.h"

#include <algorithm>
#include <cmath>

namespace stepcast::calibrate {

bool Enough(const Repetition& repetition, const Summary& so_far, Time spent) {
  if (so_far.count < repetition.least) return false;
  return so_far.count >= repetition.most || spent >= repetition.limit ||
         Uncertainty(so_far) <= repetition.uncertainty;
}

std::size_t NextBatch(const Repetition& repetition, const Summary& so_far, Time spent) {
  if (so_far.count < repetition.least) return repetition.least - so_far.count;
  const double ratio = Uncertainty(so_far) / repetition.uncertainty;
  // The uncertainty falls with the root of the count.
  const double wanted = static_cast<double>(so_far.count) * (ratio * ratio - 1);
  const double left = std::max((repetition.limit - spent).seconds(), 0.0);
  const double affordable = so_far.median > 0 ? left / so_far.median : wanted;
  const auto most = static_cast<double>(
      std::min(so_far.count, repetition.most - std::min(repetition.most, so_far.count)));
  return static_cast<std::size_t>(std::max(std::min({wanted, affordable, most}), 1.0));
}

}  // namespace stepcast::calibrate
