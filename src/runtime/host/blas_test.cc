#include "src/runtime/host/blas.h"

#include <gtest/gtest.h>

#include <vector>

namespace stepcast::runtime::host {
namespace {

TEST(Blas, MultipliesRowMajorMatrices) {
  const auto blas = Blas::Load();
  ASSERT_TRUE(blas.has_value()) << blas.error().message;
  constexpr int kM = 3, kN = 2, kK = 4;
  // Small integers: exact in any order of summation.
  std::vector<float> a(kM * kK), b(kK * kN), c(kM * kN, -1.0f);
  for (int i = 0; i < kM * kK; ++i) a[i] = static_cast<float>(i - 5);
  for (int i = 0; i < kK * kN; ++i) b[i] = static_cast<float>(3 - i);
  (*blas)->Multiply(kM, kN, kK, a.data(), b.data(), c.data());
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      float sum = 0;
      for (int k = 0; k < kK; ++k) sum += a[row * kK + k] * b[k * kN + column];
      EXPECT_EQ(c[row * kN + column], sum);
    }
  }
}

TEST(Blas, DoesNotFallBackToKernelsWithoutVectors) {
  const auto blas = Blas::Load();
  ASSERT_TRUE(blas.has_value());
  EXPECT_NE((*blas)->Version().find("OpenBLAS"), std::string::npos);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    EXPECT_EQ((*blas)->Version().find("kernels Prescott"), std::string::npos);
  }
#endif
}

TEST(Blas, IsLoadedOnce) { EXPECT_EQ(*Blas::Load(), *Blas::Load()); }

}  // namespace
}  // namespace stepcast::runtime::host
