#pragma once

#include <cstdint>

#include "src/runtime/values/exact_arithmetic.h"
#include "src/runtime/values/number_types.h"

// Clipping gradients by their norm, as torch.nn.utils.clip_grad_norm_ defines it, in FP32.
namespace stepcast::runtime::values {

// What gradients are multiplied by so that their norm, the root of `squares`, is at most `limit`.
STEPCAST_HOST_DEVICE inline float ClipFactor(float squares, float limit) {
  const float factor = Divide(limit, Add(SquareRoot(squares), 1e-6f));
  return factor < 1.0f ? factor : 1.0f;
}

// One of the addends of a sum of squares. They are added up in double precision, where the order
// makes no difference to sums of squares of small integers.
template <typename T>
STEPCAST_HOST_DEVICE inline double Square(T value) {
  const auto wide = static_cast<double>(ToFp32(value));
  return wide * wide;
}

template <typename T>
double SumOfSquares(const T* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += Square(values[i]);
  return sum;
}

// `sum`, scaled, as it is put to the number that is there.
STEPCAST_HOST_DEVICE inline float StoredSquares(float there, bool add, float scale, double sum) {
  const float part = Multiply(scale, static_cast<float>(sum));
  return add ? Add(there, part) : part;
}

template <typename T>
STEPCAST_HOST_DEVICE inline T Clipped(T value, float factor) {
  return FromFp32<T>(Multiply(factor, ToFp32(value)));
}

}  // namespace stepcast::runtime::values
