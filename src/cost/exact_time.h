#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/rates.h"
#include "src/base/time.h"

// Computes quotients of cost formulas in integers, and rounds up only the result. For example,
// 2 (N - 1) / N x S / B is exact to the picosecond for every N.
namespace stepcast::cost {

// The longest time of an operation. Longer times are reduced to the longest time, so that a Time
// does not overflow. Price() reports operations of this duration as errors.
inline constexpr Time kLongestTime = Seconds(86'400);

namespace internal {
// An integer type for bytes x rates x numerators. Results stay below 2^127 for numerators up to
// 10^7, 10^15 bytes and rates of 10^18 bytes/s.
__extension__ using Wide = __int128;

inline Time CeilingTime(Wide numerator, Wide denominator) {
  const Wide picoseconds = (numerator + denominator - 1) / denominator;
  if (picoseconds >= kLongestTime.picoseconds()) return kLongestTime;
  return Picoseconds(static_cast<std::int64_t>(picoseconds));
}
}  // namespace internal

// The number of times that the contents of a buffer cross a link: `numerator` / `denominator`.
struct Fraction {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;
};

// Returns the time to transfer `part` times `bytes` at `rate`, rounded up. Requires rate > 0.
inline Time TimeOf(Fraction part, Bytes bytes, Bandwidth rate) {
  STEPCAST_CHECK(rate > Bandwidth() && part.denominator > 0 && part.numerator >= 0,
                 "a transfer needs a positive rate");
  constexpr internal::Wide kPicosecondsPerSecond = 1'000'000'000'000;
  return internal::CeilingTime(
      static_cast<internal::Wide>(part.numerator) * bytes.count() * kPicosecondsPerSecond,
      static_cast<internal::Wide>(part.denominator) * rate.bytes_per_second());
}

// Returns the time of `flops` operations at `rate`, rounded up. Requires rate > 0.
inline Time TimeOf(std::int64_t flops, FlopRate rate) {
  STEPCAST_CHECK(rate > FlopRate() && flops >= 0, "arithmetic needs a positive rate");
  constexpr internal::Wide kPicosecondsPerSecond = 1'000'000'000'000;
  return internal::CeilingTime(static_cast<internal::Wide>(flops) * kPicosecondsPerSecond,
                               rate.flops_per_second());
}

// Returns the rate peak x efficiency, but at least 1 per second. Requires positive arguments.
inline Bandwidth Achieved(Bandwidth peak, double efficiency) {
  return std::max(peak.Scaled(efficiency), Bandwidth::BytesPerSecond(1));
}
inline FlopRate Achieved(FlopRate peak, double efficiency) {
  return std::max(peak.Scaled(efficiency), FlopRate::FlopsPerSecond(1));
}

// Returns time x numerator / denominator, rounded up.
inline Time ScaledTime(Time time, std::int64_t numerator, std::int64_t denominator) {
  return internal::CeilingTime(static_cast<internal::Wide>(time.picoseconds()) * numerator,
                               denominator);
}

}  // namespace stepcast::cost
