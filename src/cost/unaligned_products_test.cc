#include <cmath>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/cost/kernel_price.h"
#include "src/cost/kernel_time.h"

namespace stepcast::cost {
namespace {

Kernel Product(std::int64_t m, std::int64_t n, std::int64_t k, ProductLayout layout,
               Issuer issuer = Issuer::kAutograd) {
  return {.kind = KernelKind::kGemm,
          .m = m,
          .n = n,
          .k = k,
          .layout = layout,
          .flops = 2 * m * n * k,
          .read = Bytes(2 * (m * k + k * n)),
          .written = Bytes(2 * m * n),
          .issuer = issuer};
}

calibration::KernelCosts Unaligned(double part) {
  calibration::KernelCosts costs;
  costs.gemm_unaligned = part;
  return costs;
}

// The rows of a forward's operands span k. A head over an odd vocabulary has odd rows in its
// gradients.
TEST(UnalignedProducts, RowsFollowFromTheLayout) {
  constexpr std::int64_t kWords = 50257;
  EXPECT_EQ(UnalignedRate(Product(4096, kWords, 768, ProductLayout::kForward), Unaligned(0.25), {}),
            1);
  EXPECT_EQ(
      UnalignedRate(Product(4096, 768, kWords, ProductLayout::kInputGradient), Unaligned(0.25), {}),
      0.25);
  EXPECT_EQ(UnalignedRate(Product(kWords, 768, 4096, ProductLayout::kWeightGradient),
                          Unaligned(0.25), {}),
            0.25);
  EXPECT_EQ(
      UnalignedRate(Product(50304, 768, 4096, ProductLayout::kWeightGradient), Unaligned(0.25), {}),
      1);
}

TEST(UnalignedProducts, EveryHalvingOfTheLoadsCostsAsMuch) {
  const auto rate = [](std::int64_t k, DataType type = DataType::kBf16) {
    Kernel product = Product(512, 512, k, ProductLayout::kForward);
    product.data_type = type;
    return UnalignedRate(product, Unaligned(0.125), {});
  };
  EXPECT_DOUBLE_EQ(rate(1000), 1);
  EXPECT_DOUBLE_EQ(rate(1004), 0.5);
  EXPECT_DOUBLE_EQ(rate(1002), 0.25);
  EXPECT_DOUBLE_EQ(rate(1001), 0.125);
  EXPECT_DOUBLE_EQ(rate(1001, DataType::kTf32), 0.25);  // 4 bytes
  EXPECT_EQ(rate(1001, DataType::kFp32), 1);            // without tensor cores
  EXPECT_EQ(UnalignedRate(Product(512, 512, 1001, ProductLayout::kForward), Unaligned(0), {}), 1);
}

// Like an H100 with cuBLAS 13.1: a forward over 50,257 words, whose operands are aligned, is as
// slow as its gradients; 4 and 8 bytes are alike.
TEST(UnalignedProducts, RowsOfResultsCountWhereTheProfileSaysSo) {
  calibration::KernelCosts costs = Unaligned(0.2);
  costs.gemm_unaligned_even = 0.375;
  costs.gemm_unaligned_result = 0.125;
  const auto rate = [&](std::int64_t words, ProductLayout layout) {
    const bool forward = layout == ProductLayout::kForward;
    return UnalignedRate(Product(4096, forward ? words : 768, forward ? 768 : words, layout), costs,
                         {});
  };
  EXPECT_EQ(rate(50257, ProductLayout::kForward), 0.125);
  EXPECT_EQ(rate(50258, ProductLayout::kForward), 0.375);
  EXPECT_EQ(rate(50260, ProductLayout::kForward), 0.375);
  EXPECT_EQ(rate(50264, ProductLayout::kForward), 1);
  EXPECT_EQ(rate(50257, ProductLayout::kInputGradient), 0.2);
  EXPECT_EQ(rate(50258, ProductLayout::kInputGradient), 0.375);
  EXPECT_EQ(rate(50260, ProductLayout::kInputGradient), 0.375);
  // Compiled, its rows are filled up to 50,264; the weight is written anew, with reading it.
  const PaddedProduct padded = Padded(Product(4096, 50257, 768, ProductLayout::kForward));
  EXPECT_EQ(padded.product.n, 50264);
  EXPECT_EQ(padded.copied, Bytes(2 * 768 * (50257 + 50264)));
}

// Heads of 140 in an attention core with separate kernels: a batch has its own rate, whatever the
// load size.
TEST(UnalignedProducts, BatchesLoseWhatTheirTypeLoses) {
  calibration::KernelCosts costs = Unaligned(0.125);
  calibration::UnalignedBatches batches;
  batches.rate[static_cast<std::size_t>(DataType::kBf16)] = 0.09;
  costs.batched_unaligned = {batches};
  const auto rate = [&](std::int64_t head, std::int64_t batch, DataType type) {
    Kernel product = Product(1024, 1024, head, ProductLayout::kForward);
    product.batch = batch;
    product.data_type = type;
    return UnalignedRate(product, costs, {});
  };
  EXPECT_EQ(rate(128, 384, DataType::kBf16), 1);
  EXPECT_EQ(rate(140, 384, DataType::kBf16), 0.09);
  EXPECT_EQ(rate(141, 384, DataType::kBf16), 0.09);
  EXPECT_DOUBLE_EQ(rate(140, 1, DataType::kBf16), 0.5);
  EXPECT_DOUBLE_EQ(rate(140, 384, DataType::kFp16), 0.5);  // not known: as single ones
}

// The newest release that is not newer than the running one.
TEST(UnalignedProducts, BatchesLoseWhatTheirReleaseLoses) {
  calibration::KernelCosts costs;
  const auto add = [&](Version torch, double rate) {
    costs.batched_unaligned.push_back({.torch = torch});
    costs.batched_unaligned.back().rate[static_cast<std::size_t>(DataType::kFp16)] = rate;
  };
  add({1, 13}, 0.5);
  add({1, 12}, 0.25);
  Kernel product = Product(1024, 1024, 140, ProductLayout::kForward);
  product.batch = 384;
  product.data_type = DataType::kFp16;
  EXPECT_EQ(UnalignedRate(product, costs, {2, 6}), 0.5);
  EXPECT_EQ(UnalignedRate(product, costs, {1, 13}), 0.5);
  EXPECT_EQ(UnalignedRate(product, costs, {1, 12}), 0.25);
  EXPECT_EQ(UnalignedRate(product, costs, {1, 11}), 1);  // not known
  add({}, 0.125);
  EXPECT_EQ(UnalignedRate(product, costs, {1, 11}), 0.125);
}

TEST(UnalignedProducts, FillingUpWritesTheOperandsThatGrow) {
  const PaddedProduct input = Padded(Product(100, 768, 57, ProductLayout::kInputGradient));
  EXPECT_EQ(input.product.k, 64);
  EXPECT_EQ(input.product.m, 100);
  EXPECT_EQ(input.product.n, 768);
  EXPECT_EQ(input.copied, Bytes(2 * (100 + 768) * (57 + 64)));
  EXPECT_EQ(input.product.flops, 2 * 100 * 768 * 64);
  EXPECT_EQ(Padded(Product(100, 56, 64, ProductLayout::kInputGradient)).copied, Bytes());
}

class UnalignedPrice : public ::testing::Test {
 protected:
  UnalignedPrice() {
    gpu_.memory_bandwidth = Bandwidth::GigabytesPerSecond(2000);
    gpu_.peak[static_cast<std::size_t>(DataType::kBf16)] = FlopRate::TeraflopsPerSecond(300);
    gpu_.multiprocessors = 108;
    costs_.gemm[static_cast<std::size_t>(DataType::kBf16)] = {.max_efficiency = 0.8,
                                                              .half_flops = 1e9};
    costs_.memory_efficiency = 0.75;
    costs_.start_latency = Microseconds(2);
    costs_.gemm_unaligned = 0.36;
  }
  double Seconds(const Kernel& kernel) const {
    const auto demand = PriceKernel(kernel, {.gpu = gpu_, .costs = costs_});
    EXPECT_TRUE(demand.has_value());
    return demand ? (demand->latency + demand->work).seconds() : 0;
  }
  topology::Gpu gpu_;
  calibration::KernelCosts costs_;
};

TEST_F(UnalignedPrice, EagerCodeTakesTheSlowKernelAndACompiledGraphFillsUp) {
  const auto gradient = [](std::int64_t words, Issuer issuer) {
    return Product(words, 768, 16384, ProductLayout::kWeightGradient, issuer);
  };
  const double aligned = Seconds(gradient(50304, Issuer::kAutograd));
  const double eager = Seconds(gradient(50257, Issuer::kAutograd));
  const double compiled = Seconds(gradient(50257, Issuer::kFramework));
  EXPECT_NEAR(eager / aligned, 1 / 0.36, 0.05);
  EXPECT_GT(compiled, aligned);
  EXPECT_LT(compiled, 0.7 * eager);
  EXPECT_EQ(Seconds(gradient(50304, Issuer::kFramework)), aligned);
}

// A padded row never loads slower, and compiling never costs.
RC_GTEST_FIXTURE_PROP(UnalignedPrice, NoProductIsFasterForItsRows, ()) {
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 5000); };
  const auto layout = *rc::gen::element(ProductLayout::kForward, ProductLayout::kInputGradient,
                                        ProductLayout::kWeightGradient);
  Kernel product = Product(size(), size(), size(), layout);
  const double eager = Seconds(product);
  product.issuer = Issuer::kFramework;
  const double compiled = Seconds(product);
  costs_.gemm_unaligned = 0;
  const double whole = Seconds(product);
  RC_ASSERT(eager >= whole);
  RC_ASSERT(compiled <= eager);
}

}  // namespace
}  // namespace stepcast::cost
