#pragma once

#include "src/runtime/values/number_types.h"

using __nv_bfloat16 = stepcast::runtime::values::Bf16;
struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  using stepcast::runtime::values::FromFp32;
  return {FromFp32<__nv_bfloat16>(x), FromFp32<__nv_bfloat16>(y)};
}
