#pragma once

#include <compare>
#include <cstdint>

namespace stepcast {

// A number of bytes. KiB, MiB and GiB are binary; GB is 10^9 bytes.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : count_(count) {}

  constexpr std::int64_t count() const { return count_; }

  constexpr Bytes& operator+=(Bytes other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return a -= b; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes(a.count_ * n); }
  friend constexpr Bytes operator*(std::int64_t n, Bytes a) { return a * n; }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

 private:
  std::int64_t count_ = 0;
};

constexpr Bytes KiB(std::int64_t n) { return Bytes(n << 10); }
constexpr Bytes MiB(std::int64_t n) { return Bytes(n << 20); }
constexpr Bytes GiB(std::int64_t n) { return Bytes(n << 30); }

}  // namespace stepcast
