#pragma once

#include <cstdint>

#include "src/runtime/values/number_types.h"

// Pseudo-random values that depend only on a seed and an index. Every rank and backend computes the
// same values, for any part and in any order. Only 32-bit operations are used, so loops can be
// vectorized.
namespace stepcast::runtime::values {

// Mixes 32 bits bijectively (C. Wellons, "Prospecting for hash functions", 2018, lowbias32).
STEPCAST_HOST_DEVICE inline std::uint32_t Mix(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// Returns the contribution of one model element to a hash.
STEPCAST_HOST_DEVICE inline std::uint32_t ElementHash(std::int64_t element) {
  const auto index = static_cast<std::uint64_t>(element);
  return static_cast<std::uint32_t>(index) * 0x9e3779b1u +
         static_cast<std::uint32_t>(index >> 32) * 0x85ebca77u;
}

STEPCAST_HOST_DEVICE inline std::uint32_t SeedHash(std::uint64_t seed) {
  return Mix(static_cast<std::uint32_t>(seed) + 0x2545f491u) ^
         Mix(static_cast<std::uint32_t>(seed >> 32) + 0x632be5abu);
}

// Returns the initial value of a model element: an odd multiple of 1/2048 between -1/16 and 1/16,
// so it is never zero. All storage types represent the value exactly, so a master copy and a 16-bit
// parameter are equal at the start. `seed` is SeedHash of the run's seed.
STEPCAST_HOST_DEVICE inline float InitialValue(std::uint32_t seed, std::int64_t element) {
  const std::uint32_t hash = Mix(seed ^ ElementHash(element));
  const std::int32_t odd = static_cast<std::int32_t>((hash >> 25) * 2) - 127;
  return Multiply(static_cast<float>(odd), 0x1p-11f);
}

// Returns an input value or an operand of a GEMM, between -1 and 1 and never zero. `seed` is
// SeedHash of the run's seed, as for InitialValue.
STEPCAST_HOST_DEVICE inline float RandomOperand(std::uint32_t seed, std::int64_t index) {
  const std::uint32_t hash = Mix(seed ^ ElementHash(index));
  const std::int32_t odd = static_cast<std::int32_t>((hash >> 9) * 2 + 1) - (1 << 23);
  return Multiply(static_cast<float>(odd), 0x1p-23f);
}

}  // namespace stepcast::runtime::values
