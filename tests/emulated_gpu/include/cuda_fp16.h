#pragma once

#include "src/runtime/values/number_types.h"

using __half = stepcast::runtime::values::Fp16;
struct __half2 {
  __half x, y;
};
inline __half2 __floats2half2_rn(float x, float y) {
  using stepcast::runtime::values::FromFp32;
  return {FromFp32<__half>(x), FromFp32<__half>(y)};
}
