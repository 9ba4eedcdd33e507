#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "src/base/check.h"
#include "src/base/data_type.h"

// FP32 arithmetic that produces the same bits on every backend. Each operation is rounded once, to
// nearest, ties to even (IEEE 754). GPUs need intrinsics for this, because nvcc would contract a
// multiplication and an addition into one operation with one rounding. Host code that includes this
// file must not be compiled with both fused multiply-add and -ffp-contract=fast; the plain x86-64
// target has no fused multiply-add.
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

// The storage types of parameters and gradients. Kernels compute in FP32. When values are stored,
// they are rounded to nearest, ties to even.

struct Bf16 {
  std::uint16_t bits = 0;
};
struct Fp16 {
  std::uint16_t bits = 0;
};

STEPCAST_HOST_DEVICE inline float ToFp32(float value) { return value; }

STEPCAST_HOST_DEVICE inline float ToFp32(Bf16 value) {
  return FloatOfBits(static_cast<std::uint32_t>(value.bits) << 16);
}

STEPCAST_HOST_DEVICE inline float ToFp32(Fp16 value) {
  // Exponent and fraction are shifted to their FP32 positions. The multiplication corrects the
  // exponent's bias, also for subnormal numbers, and is exact.
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  if (magnitude >= 0x7c00u) return FloatOfBits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  const float scaled = Multiply(FloatOfBits(magnitude << 13), 0x1p112f);
  return FloatOfBits(sign | BitsOf(scaled));
}

template <typename T>
STEPCAST_HOST_DEVICE T FromFp32(float value);

template <>
STEPCAST_HOST_DEVICE inline float FromFp32<float>(float value) {
  return value;
}

template <>
STEPCAST_HOST_DEVICE inline Bf16 FromFp32<Bf16>(float value) {
  const std::uint32_t bits = BitsOf(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;  // remains a NaN
  return {static_cast<std::uint16_t>(is_nan ? quiet : rounded)};
}

template <>
STEPCAST_HOST_DEVICE inline Fp16 FromFp32<Fp16>(float value) {
  const std::uint32_t bits = BitsOf(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;  // 65520 and above round to infinity
  } else if (magnitude >= 0x38800000u) {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else {
    // A value that is subnormal in FP16. Adding 0.5 rounds the value to the bits that FP16 keeps.
    half = BitsOf(Add(FloatOfBits(magnitude), 0.5f)) - 0x3f000000u;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

// Returns `target` + `scale` * `source`, the value that a move (EffectKind::kMove) stores.
STEPCAST_HOST_DEVICE inline float AddScaled(float target, float scale, float source) {
  return Add(target, Multiply(scale, source));
}

// Calls `function` with a value of the storage type: float, Bf16 or Fp16. Values that are stored in
// 8 bits or fewer have no data flow.
template <typename Function>
decltype(auto) WithStorageType(DataType type, Function&& function) {
  switch (type) {
    case DataType::kBf16:
      return std::forward<Function>(function)(Bf16{});
    case DataType::kFp16:
      return std::forward<Function>(function)(Fp16{});
    case DataType::kFp32:
    case DataType::kTf32:
    case DataType::kFp8:
    case DataType::kMxfp8:
    case DataType::kNvfp4:
      break;
  }
  STEPCAST_CHECK(SizeOf(type) == SizeOf(DataType::kFp32),
                 "the data type of stored values must be fp32, bf16 or fp16");
  return std::forward<Function>(function)(0.0f);
}

}  // namespace stepcast::runtime::values
