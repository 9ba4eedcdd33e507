#include "src/runtime/host/simd_kernels.h"

#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"

// AVX2 without FMA, which would round a product and a sum only once. Sanitizers are not initialized
// when the loader chooses between such copies of a function.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STEPCAST_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define STEPCAST_WIDE
#endif

namespace stepcast::runtime::host {

STEPCAST_WIDE void WriteQuadraticGradients(const float* source, std::int64_t count,
                                           std::uint32_t seed, std::int64_t first, float scale,
                                           bool add, float* target) {
  if (add) {
    for (std::int64_t i = 0; i < count; ++i) {
      target[i] = values::AddScaled(target[i], scale,
                                    values::QuadraticGradient(source[i], seed, first + i));
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    target[i] = values::Multiply(scale, values::QuadraticGradient(source[i], seed, first + i));
  }
}

STEPCAST_WIDE void AddAndDivide(const float* a, const float* b, std::int64_t count, float divisor,
                                float* sum) {
  if (divisor == 1.0f) {
    for (std::int64_t i = 0; i < count; ++i) sum[i] = values::Add(a[i], b[i]);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    sum[i] = values::Divide(values::Add(a[i], b[i]), divisor);
  }
}

}  // namespace stepcast::runtime::host
