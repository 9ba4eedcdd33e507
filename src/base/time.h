#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace stepcast {

// A point in simulated time or a duration, in picoseconds. The range is +-106 days.
//
// One type is used for points and durations, because the simulated clock starts at zero. Example:
// Microseconds(3) + 2 * Nanoseconds(500) == Microseconds(4). Conversions from rates to Time round
// up (rates.h), so rounding never makes an operation faster than its bound.
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time FromPicoseconds(std::int64_t picoseconds) { return Time(picoseconds); }
  static constexpr Time Max() { return Time(std::numeric_limits<std::int64_t>::max()); }

  constexpr std::int64_t picoseconds() const { return picoseconds_; }
  constexpr double seconds() const { return static_cast<double>(picoseconds_) * 1e-12; }
  constexpr double microseconds() const { return static_cast<double>(picoseconds_) * 1e-6; }

  constexpr Time& operator+=(Time other) {
    picoseconds_ += other.picoseconds_;
    return *this;
  }
  constexpr Time& operator-=(Time other) {
    picoseconds_ -= other.picoseconds_;
    return *this;
  }
  friend constexpr Time operator+(Time a, Time b) { return a += b; }
  friend constexpr Time operator-(Time a, Time b) { return a -= b; }
  friend constexpr Time operator*(Time a, std::int64_t n) { return Time(a.picoseconds_ * n); }
  friend constexpr Time operator*(std::int64_t n, Time a) { return a * n; }
  // Division by a unit returns a number, as in t / Microseconds(1).
  friend constexpr double operator/(Time a, Time b) {
    return static_cast<double>(a.picoseconds_) / static_cast<double>(b.picoseconds_);
  }
  friend constexpr auto operator<=>(Time, Time) = default;

 private:
  constexpr explicit Time(std::int64_t picoseconds) : picoseconds_(picoseconds) {}
  std::int64_t picoseconds_ = 0;
};

constexpr Time Picoseconds(std::int64_t n) { return Time::FromPicoseconds(n); }
constexpr Time Nanoseconds(std::int64_t n) { return Time::FromPicoseconds(n * 1'000); }
constexpr Time Microseconds(std::int64_t n) { return Time::FromPicoseconds(n * 1'000'000); }
constexpr Time Milliseconds(std::int64_t n) { return Time::FromPicoseconds(n * 1'000'000'000); }
constexpr Time Seconds(std::int64_t n) { return Time::FromPicoseconds(n * 1'000'000'000'000); }

}  // namespace stepcast
