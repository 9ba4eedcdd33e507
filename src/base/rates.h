#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/time.h"

namespace stepcast {

// A rate in bytes per second, in one direction, of a link or a memory. Vendors state the sum of
// both directions for NVLink; this class always means one direction (NVLink 4: 450 GB/s).
class Bandwidth {
 public:
  constexpr Bandwidth() = default;
  static constexpr Bandwidth BytesPerSecond(std::int64_t n) { return Bandwidth(n); }
  static constexpr Bandwidth GigabytesPerSecond(std::int64_t n) {
    return Bandwidth(n * 1'000'000'000);
  }

  constexpr std::int64_t bytes_per_second() const { return bytes_per_second_; }
  constexpr double gigabytes_per_second() const {
    return static_cast<double>(bytes_per_second_) * 1e-9;
  }
  // Returns this bandwidth times `factor`, rounded down.
  Bandwidth Scaled(double factor) const {
    return Bandwidth(
        static_cast<std::int64_t>(std::floor(static_cast<double>(bytes_per_second_) * factor)));
  }

  friend constexpr auto operator<=>(Bandwidth, Bandwidth) = default;

 private:
  constexpr explicit Bandwidth(std::int64_t n) : bytes_per_second_(n) {}
  std::int64_t bytes_per_second_ = 0;
};

// A rate in floating-point operations per second.
class FlopRate {
 public:
  constexpr FlopRate() = default;
  static constexpr FlopRate FlopsPerSecond(std::int64_t n) { return FlopRate(n); }
  static constexpr FlopRate TeraflopsPerSecond(std::int64_t n) {
    return FlopRate(n * 1'000'000'000'000);
  }

  constexpr std::int64_t flops_per_second() const { return flops_per_second_; }
  FlopRate Scaled(double factor) const {
    return FlopRate(
        static_cast<std::int64_t>(std::floor(static_cast<double>(flops_per_second_) * factor)));
  }

  friend constexpr auto operator<=>(FlopRate, FlopRate) = default;

 private:
  constexpr explicit FlopRate(std::int64_t n) : flops_per_second_(n) {}
  std::int64_t flops_per_second_ = 0;
};

namespace internal {
// Returns ceil(amount * 10^12 / rate), exactly. Requires amount >= 0 and rate > 0.
inline Time PicosecondsAt(std::int64_t amount, std::int64_t rate) {
  STEPCAST_CHECK(amount >= 0 && rate > 0, "to compute a duration, the rate must be positive");
  __extension__ using Wide = __int128;
  const Wide exact = static_cast<Wide>(amount) * 1'000'000'000'000;
  return Time::FromPicoseconds(static_cast<std::int64_t>((exact + rate - 1) / rate));
}
}  // namespace internal

// Returns the time for `data` at `rate`, rounded up to a picosecond. Requires rate > 0.
inline Time operator/(Bytes data, Bandwidth rate) {
  return internal::PicosecondsAt(data.count(), rate.bytes_per_second());
}

// Returns the time for `flops` operations at `rate`, rounded up to a picosecond. Requires rate > 0.
inline Time TimeFor(std::int64_t flops, FlopRate rate) {
  return internal::PicosecondsAt(flops, rate.flops_per_second());
}

}  // namespace stepcast
