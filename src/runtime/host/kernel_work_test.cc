#include "src/runtime/host/kernel_work.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/examples/test_program.h"

namespace stepcast::runtime::host {
namespace {

Kernel Product(std::int64_t m, std::int64_t n, std::int64_t k) {
  Kernel kernel;
  kernel.name = "product";
  kernel.kind = KernelKind::kGemm;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  return kernel;
}

program::Program With(const Kernel& kernel) {
  program::TestProgram program(1);
  program.Step();
  const program::Index index = program.AddKernel(kernel.name);
  program.program().kernels[index] = kernel;
  program.Run(0, index);
  return program.program();
}

TEST(KernelWork, ProductsAreOfRandomNumbers) {
  const Kernel kernel = Product(20, 30, 40);
  const program::Program program = With(kernel);
  const Attempt<KernelWork> work = KernelWork::Make(program, GiB(1), 3);
  ASSERT_TRUE(work.has_value()) << work.error().message;
  const float* result = work->Multiply(kernel, 0);
  int zeros = 0;
  for (int i = 0; i < 20 * 30; ++i) {
    ASSERT_TRUE(std::isfinite(result[i]));
    // The sum of 40 products of numbers below 1.
    ASSERT_LT(std::abs(result[i]), 40.0f);
    zeros += result[i] == 0 ? 1 : 0;
  }
  EXPECT_EQ(zeros, 0);
  // Two operands and a result, rounded up to cache lines.
  EXPECT_GE(work->size(), Bytes(4 * (20 * 40 + 40 * 30 + 20 * 30)));
}

TEST(KernelWork, RefusesWhatDoesNotFitAndNamesTheKernel) {
  const program::Program program = With(Product(4000, 4000, 4000));
  const Attempt<KernelWork> work = KernelWork::Make(program, MiB(100), 3);
  ASSERT_FALSE(work.has_value());
  EXPECT_TRUE(work.error().out_of_memory);
  EXPECT_NE(work.error().message.find("'product'"), std::string::npos) << work.error().message;
}

TEST(KernelWork, RefusesWhatTheSystemDoesNotHave) {
  // 2^49 floats, 2^51 bytes: more than a process can address.
  const program::Program program = With(Product(1 << 24, 1, std::int64_t{1} << 25));
  const Attempt<KernelWork> work = KernelWork::Make(program, Bytes(std::int64_t{1} << 60), 3);
  ASSERT_FALSE(work.has_value());
  EXPECT_TRUE(work.error().out_of_memory);
}

TEST(KernelWork, RefusesProductsThatBlasCannotCount) {
  const program::Program program = With(Product(std::int64_t{1} << 31, 1, 1));
  const Attempt<KernelWork> work = KernelWork::Make(program, GiB(1), 3);
  ASSERT_FALSE(work.has_value());
  EXPECT_FALSE(work.error().out_of_memory);
}

TEST(KernelWork, GoesRoundInAWindow) {
  Kernel kernel;
  kernel.name = "norm";
  kernel.read = MiB(300);
  kernel.written = MiB(150);
  const program::Program program = With(kernel);
  const Attempt<KernelWork> work = KernelWork::Make(program, GiB(1), 3);
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->size(), 2 * KernelWork::kWindow);
  work->MoveBytes(kernel.read, kernel.written, 0);
  work->MoveBytes(Bytes(0), Bytes(7), 0);
  work->MoveBytes(Bytes(7), Bytes(0), 0);
}

TEST(KernelWork, NothingToComputeTakesNoMemory) {
  Kernel kernel;
  kernel.name = "given";
  kernel.kind = KernelKind::kGiven;
  const program::Program program = With(kernel);
  const Attempt<KernelWork> work = KernelWork::Make(program, Bytes(0), 3);
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->size(), Bytes(0));
}

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
