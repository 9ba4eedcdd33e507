#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// FP32 arithmetic that gives the same bits on every backend. Each operation is rounded once, to
// nearest, ties to even (IEEE 754). GPUs need intrinsics for this, because nvcc would contract a
// product and a sum into one operation with one rounding. Host code that includes this file must
// not be compiled with both fused multiply-add and -ffp-contract=fast; the plain x86-64 target has
// no fused multiply-add.
#ifdef __CUDACC__
#define STEPCAST_HOST_DEVICE __host__ __device__
#else
#define STEPCAST_HOST_DEVICE
#endif

namespace stepcast::runtime::values {

STEPCAST_HOST_DEVICE inline float Add(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

STEPCAST_HOST_DEVICE inline float Multiply(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

STEPCAST_HOST_DEVICE inline float Divide(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

STEPCAST_HOST_DEVICE inline float SquareRoot(float a) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(a);
#else
  return std::sqrt(a);
#endif
}

STEPCAST_HOST_DEVICE inline std::uint32_t BitsOf(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}

STEPCAST_HOST_DEVICE inline float FloatOfBits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

}  // namespace stepcast::runtime::values
