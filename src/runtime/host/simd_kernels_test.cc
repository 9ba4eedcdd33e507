#include "src/runtime/host/simd_kernels.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"
#include "src/runtime/values/random_values.h"

namespace stepcast::runtime::host {
namespace {

// Not a multiple of any vector length.
constexpr std::int64_t kCount = 1003;

std::vector<float> Numbers(std::uint32_t seed) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < kCount; ++i) numbers.push_back(values::RandomOperand(seed, i));
  return numbers;
}

// Bit for bit the results of the function for one element; this file is compiled without vector
// instructions.
TEST(SimdKernels, GradientsAreThoseOfTheElements) {
  const std::vector<float> source = Numbers(1);
  for (const std::int64_t first : {std::int64_t{0}, (std::int64_t{1} << 32) - 500}) {
    for (const bool add : {false, true}) {
      std::vector<float> target = Numbers(2);
      const std::vector<float> before = target;
      WriteQuadraticGradients(source.data(), kCount, 77, first, 0.3f, add, target.data());
      for (std::int64_t i = 0; i < kCount; ++i) {
        const float gradient = values::QuadraticGradient(source[i], 77, first + i);
        EXPECT_EQ(target[i], add ? values::AddScaled(before[i], 0.3f, gradient)
                                 : values::Multiply(0.3f, gradient))
            << i;
      }
    }
  }
}

TEST(SimdKernels, SumsAreThoseOfTheElements) {
  const std::vector<float> a = Numbers(3);
  for (const float divisor : {1.0f, 3.0f}) {
    std::vector<float> b = Numbers(4);
    const std::vector<float> before = b;
    AddAndDivide(a.data(), b.data(), kCount, divisor, b.data());
    for (std::int64_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(b[i], values::Divide(values::Add(a[i], before[i]), divisor)) << i;
    }
  }
}

}  // namespace
}  // namespace stepcast::runtime::host
