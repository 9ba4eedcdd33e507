#pragma once

#include <cstdint>

#include "src/runtime/values/number_types.h"
#include "src/runtime/values/random_values.h"

namespace stepcast::runtime::values {

// Clips gradients by their norm, as torch.nn.utils.clip_grad_norm_ defines it, in FP32.

// Returns the factor that scales gradients down to a norm of at most `limit`. `squares` is the
// square of the norm.
STEPCAST_HOST_DEVICE inline float ClipFactor(float squares, float limit) {
  const float factor = Divide(limit, Add(SquareRoot(squares), 1e-6f));
  return factor < 1.0f ? factor : 1.0f;
}

// Returns one term of a sum of squares, in double precision. In double precision, sums of squares
// of small integers are exact in any order.
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

// Returns `scale` times `sum`, plus the stored number `there` if `add`.
STEPCAST_HOST_DEVICE inline float StoredSquares(float there, bool add, float scale, double sum) {
  const float part = Multiply(scale, static_cast<float>(sum));
  return add ? Add(there, part) : part;
}

template <typename T>
STEPCAST_HOST_DEVICE inline T Clipped(T value, float factor) {
  return FromFp32<T>(Multiply(factor, ToFp32(value)));
}

// The synthetic gradients that kernels write (GradientRule in device.h). Each gradient depends only
// on one parameter (read as FP32), its position, the rank, the step and the micro-batch, so that
// any part of a tensor can be computed separately.

// The gradients of kSmallIntegers are integers from -4 to 4 that change if any bit of the parameter
// changes. Sums of these integers are exact in bf16, in any order, if ranks x micro-batches x
// contributions to one tensor <= 64.
inline constexpr int kLargestSmallInteger = 4;

// Returns the seed of a rank's micro-batch. `step` is counted from the first executed step,
// including warm-up steps.
STEPCAST_HOST_DEVICE inline std::uint32_t SmallIntegerSeed(int rank, std::uint32_t step,
                                                           int micro_batch) {
  return Mix(Mix(Mix(static_cast<std::uint32_t>(rank)) + step) +
             static_cast<std::uint32_t>(micro_batch));
}

// Returns the check word that a pipeline stage computes for a micro-batch (kMix). `received` is the
// previous stage's word or, in the first stage, the seed. `also` is a second input. `salt`
// identifies the stage.
STEPCAST_HOST_DEVICE inline std::uint32_t MixedPass(std::uint32_t received, std::uint32_t also,
                                                    std::int64_t salt) {
  return Mix(Mix(received + static_cast<std::uint32_t>(salt)) ^ also);
}

STEPCAST_HOST_DEVICE inline float SmallIntegerGradient(float parameter, std::uint32_t seed,
                                                       std::int64_t element) {
  const std::uint32_t hash = Mix(BitsOf(parameter) ^ Mix(seed ^ ElementHash(element)));
  constexpr std::uint32_t kValues = 2 * kLargestSmallInteger + 1;
  const std::uint32_t value = ((hash >> 16) * kValues) >> 16;
  return static_cast<float>(static_cast<std::int32_t>(value) - kLargestSmallInteger);
}

// The quadratic gradient is w - target, the gradient of the loss (w - target)^2 / 2. An element's
// targets have the same sign for all ranks and micro-batches, and absolute values between 1/2 and
// 1. Initial parameters are within 1/16 of zero. Gradients are therefore not close to zero for
// hundreds of steps. AdamW divides by the size of gradients, so it does not amplify rounding
// errors, and the results of runs with different rounding remain close.
STEPCAST_HOST_DEVICE inline std::uint32_t QuadraticSeed(int rank, int micro_batch) {
  return Mix(Mix(static_cast<std::uint32_t>(rank) + 0x51ed270bu) +
             static_cast<std::uint32_t>(micro_batch));
}

STEPCAST_HOST_DEVICE inline float QuadraticTarget(std::uint32_t seed, std::int64_t element) {
  const std::uint32_t place = ElementHash(element);
  const std::uint32_t fraction = Mix(seed ^ place) >> 9;  // 23 bits
  const std::uint32_t sign = Mix(place) & 0x80000000u;
  return FloatOfBits(sign | 0x3f000000u | fraction);
}

STEPCAST_HOST_DEVICE inline float QuadraticGradient(float parameter, std::uint32_t seed,
                                                    std::int64_t element) {
  return Add(parameter, -QuadraticTarget(seed, element));
}

}  // namespace stepcast::runtime::values
