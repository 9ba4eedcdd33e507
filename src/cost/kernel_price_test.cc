#include "src/cost/kernel_price.h"

#include <cmath>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/cost/exact_time.h"

namespace stepcast::cost {
namespace {

// A device with round figures: 100 Tflop/s in BF16, 10 Tflop/s in FP32, 1 TB/s.
topology::Gpu RoundGpu() {
  topology::Gpu gpu;
  gpu.name = "round";
  gpu.memory = GiB(80);
  gpu.memory_bandwidth = Bandwidth::GigabytesPerSecond(1000);
  gpu.peak[static_cast<std::size_t>(DataType::kBf16)] = FlopRate::TeraflopsPerSecond(100);
  gpu.peak[static_cast<std::size_t>(DataType::kFp32)] = FlopRate::TeraflopsPerSecond(10);
  gpu.multiprocessors = 100;
  return gpu;
}

calibration::KernelCosts RoundCosts() {
  calibration::KernelCosts costs;
  costs.gemm[static_cast<std::size_t>(DataType::kBf16)] = {.max_efficiency = 0.8,
                                                           .half_flops = 4e9};
  costs.gemm[static_cast<std::size_t>(DataType::kFp16)] = {.max_efficiency = 0.8,
                                                           .half_flops = 4e9};
  costs.attention_forward_efficiency = 0.5;
  costs.attention_backward_efficiency = 0.25;
  costs.memory_efficiency = 0.5;
  costs.start_latency = Microseconds(2);
  return costs;
}

class KernelPriceTest : public ::testing::Test {
 protected:
  Demand Price(const Kernel& kernel, bool start_latency = true) const {
    const auto demand =
        PriceKernel(kernel, {.gpu = gpu_, .costs = costs_, .start_latency = start_latency});
    EXPECT_TRUE(demand.has_value());
    return demand.value_or(Demand());
  }

  static double Share(const Demand& demand, Resource resource) {
    return demand.share[static_cast<std::size_t>(resource)];
  }

  const topology::Gpu gpu_ = RoundGpu();
  const calibration::KernelCosts costs_ = RoundCosts();
};

Kernel Gemm(std::int64_t flops, Bytes read, Bytes written) {
  Kernel kernel;
  kernel.name = "q_proj";
  kernel.kind = KernelKind::kGemm;
  kernel.flops = flops;
  kernel.read = read;
  kernel.written = written;
  return kernel;
}

// Products were measured in short runs. In a long run, a kernel as busy as the largest of them is
// slower by the clock that the board's power sustains: here half. Kernels that wait for other
// things draw less and are not slowed.
TEST_F(KernelPriceTest, MeasuredProductsHaveTheClockThatPowerHolds) {
  double limit = 0;
  calibration::KernelCosts costs = costs_;
  costs.start_latency = Time();
  costs.gemm_surface[static_cast<std::size_t>(DataType::kBf16)] = {
      .m = {1024, 4096}, .n = {4096}, .k = {4096}, .times = {Milliseconds(2), Milliseconds(2)}};
  const auto time = [&](std::int64_t m) {
    const Kernel kernel{.name = "q_proj",
                        .kind = KernelKind::kGemm,
                        .data_type = DataType::kBf16,
                        .m = m,
                        .n = 4096,
                        .k = 4096,
                        .flops = 2 * m * 4096 * 4096,
                        .read = Bytes(1),
                        .written = Bytes(1)};
    const auto demand = PriceKernel(kernel, {.gpu = gpu_, .costs = costs, .limit_watts = limit});
    EXPECT_TRUE(demand.has_value());
    return demand.value_or(Demand()).work.seconds();
  };
  EXPECT_NEAR(time(4096), 2e-3, 1e-9);  // nothing is known of power
  costs.power = {.idle = 100, .products = 4800};
  EXPECT_NEAR(time(4096), 2e-3, 1e-9);
  limit = 700;
  EXPECT_NEAR(time(4096), 4e-3, 1e-9);  // (700 - 100) / 4800 = 1 / 8
  // A quarter of the rate draws a quarter.
  EXPECT_NEAR(time(1024), 2e-3 * std::cbrt(2.0), 1e-9);
  limit = 4900;
  EXPECT_NEAR(time(4096), 2e-3, 1e-9);
}

// As the largest measured product in the kernel's layout; otherwise the fastest tile, or the
// formula.
TEST_F(KernelPriceTest, BestProductsAreWhatTheProfileKnows) {
  calibration::KernelCosts costs = costs_;
  const Kernel product = Gemm(1, Bytes(), Bytes());
  const KernelSetting setting{.gpu = gpu_, .costs = costs};
  EXPECT_EQ(BestProductRate(product, setting), 0.8 * 100e12);
  costs.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)] = {
      .tiles = {{64, 64, 0.5}, {128, 128, 0.9}}, .fill = 0, .start = {}};
  EXPECT_EQ(BestProductRate(product, setting), 0.9 * 100e12);
  costs.gemm_surface[static_cast<std::size_t>(DataType::kBf16)] = {
      .m = {1000}, .n = {1000}, .k = {1000}, .times = {Microseconds(40)}};
  EXPECT_DOUBLE_EQ(BestProductRate(product, setting), 50e12);
  Kernel core = product;
  core.kind = KernelKind::kAttention;
  EXPECT_DOUBLE_EQ(BestProductRate(core, setting), 50e12);
}

// A block of queries has work that does not grow with the keys: half of the best rate at
// half_length. Slow kernels draw little power; fast ones lose clock.
TEST_F(KernelPriceTest, AttentionHasARateByLengthHeadsAndPower) {
  double limit = 0;
  calibration::KernelCosts costs = costs_;
  costs.attention[2] = {
      .forward = 0.4, .backward = 0.2, .forward_half_length = 1024, .head_64 = 0.5, .head_256 = 2};
  const auto seconds = [&](std::int64_t length, std::int64_t head, std::int64_t window = 0) {
    const std::int64_t keys = window == 0 ? length : window;
    const std::int64_t pairs = length * keys - keys * keys / 2;
    const Kernel core{.kind = KernelKind::kAttention,
                      .batch = 1000,  // more thread blocks than multiprocessors
                      .m = length,
                      .n = keys,
                      .k = head,
                      .flops = 1'000'000 * pairs,
                      .read = Bytes(1),
                      .written = Bytes(1),
                      .flash = 3};
    const auto demand = PriceKernel(core, {.gpu = gpu_, .costs = costs, .limit_watts = limit});
    EXPECT_TRUE(demand.has_value());
    return demand.value_or(Demand()).work.seconds();
  };
  const double best = 1e6 * 1024 * 512 / (100e12 * 0.4);  // without what does not grow
  EXPECT_NEAR(seconds(1024, 128), 2 * best, 1e-9);
  EXPECT_NEAR(seconds(4096, 128), 16 * best * 1.25, 1e-9);
  EXPECT_NEAR(seconds(1024, 64), 4 * best, 1e-9);
  EXPECT_NEAR(seconds(1024, 256), best, 1e-9);
  EXPECT_NEAR(seconds(1024, 512), best, 1e-9);
  // Under a window every query pays the same for fewer keys.
  EXPECT_NEAR(seconds(4096, 128, 1024) - seconds(4096, 128, 512),
              1e6 * (4096.0 * 512 - (1024.0 * 1024 - 512 * 512) / 2) / (100e12 * 0.4), 1e-9);

  costs.power = {.idle = 100, .products = 4800};
  limit = 700;
  // At 0.32 of the peak it draws 0.4 of what products at 0.8 do: (700 - 100) / (0.4 x 4800).
  EXPECT_NEAR(seconds(4096, 128), 16 * best * 1.25 * std::cbrt(3.2), 1e-9);
  limit = 2100;
  EXPECT_NEAR(seconds(4096, 128), 16 * best * 1.25, 1e-9);
}

TEST_F(KernelPriceTest, LargeProductIsBoundByArithmetic) {
  // (76e9 + 4e9) flops / (100e12 x 0.8 flop/s) = 1 ms.
  // (100e6 + 50e6) B / (1e12 x 0.5 B/s) = 300 us: 0.3 of the time.
  const Demand demand = Price(Gemm(76'000'000'000, Bytes(100'000'000), Bytes(50'000'000)));
  EXPECT_EQ(demand.latency, Microseconds(2));
  EXPECT_EQ(demand.work, Milliseconds(1));
  EXPECT_DOUBLE_EQ(Share(demand, Resource::kCompute), 1);
  EXPECT_DOUBLE_EQ(Share(demand, Resource::kMemory), 0.3);
  EXPECT_DOUBLE_EQ(Share(demand, Resource::kNetwork), 0);
  EXPECT_EQ(demand.provenance, Provenance::kModelled);
}

TEST_F(KernelPriceTest, HalfFlopsIsWhereHalfOfTheBestSpeedIsReached) {
  // 4e9 flops at full efficiency would take 50 us; at half_flops = 4e9 they take 100 us.
  EXPECT_EQ(Price(Gemm(4'000'000'000, Bytes(0), Bytes(0))).work, Microseconds(100));
}

TEST_F(KernelPriceTest, ThinProductIsBoundByMemory) {
  // (0.4e9 + 4e9) / 80e12 = 55 us; 50e6 B / 0.5e12 B/s = 100 us.
  const Demand demand = Price(Gemm(400'000'000, Bytes(50'000'000), Bytes(0)));
  EXPECT_EQ(demand.work, Microseconds(100));
  EXPECT_DOUBLE_EQ(Share(demand, Resource::kCompute), 0.55);
  EXPECT_DOUBLE_EQ(Share(demand, Resource::kMemory), 1);
}

// 51e6 B at half of 1e12 B/s take 102 us. A kernel for all experts takes 60 us, at 0.85 of this
// bandwidth, on devices with a tensor memory accelerator and HBM. Its arithmetic takes no longer:
// 10 tiles of 128 x 128 x 64 at 0.5 of a tenth of 100 Tflop/s take 0.42 us.
TEST_F(KernelPriceTest, KernelsForAllExpertsStreamWeights) {
  calibration::KernelCosts costs = costs_;
  costs.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)] = {.tiles = {{128, 128, 0.5}},
                                                                  .start = Microseconds(2)};
  topology::Gpu gpu = gpu_;
  Kernel kernel = Gemm(10LL * 2 * 128 * 128 * 64, Bytes(51'000'000), Bytes(0));
  kernel.batch = 10;
  kernel.m = kernel.n = 128;
  kernel.k = 64;
  const auto work = [&] { return PriceKernel(kernel, {.gpu = gpu, .costs = costs})->work; };
  for (const int capability : {90, 100, 103}) {
    gpu.compute_capability = capability;
    kernel.grouped = false;
    EXPECT_EQ(work(), Microseconds(102));
    kernel.grouped = true;
    EXPECT_EQ(work(), Microseconds(60));
  }
  for (const int capability : {80, 120}) {
    gpu.compute_capability = capability;
    EXPECT_EQ(work(), Microseconds(102));
  }
  gpu.compute_capability = 90;
  costs.memory_efficiency = 1;
  EXPECT_EQ(work(), Microseconds(51));
}

TEST_F(KernelPriceTest, AttentionHasAnEfficiencyForEachDirection) {
  Kernel kernel;
  kernel.kind = KernelKind::kAttention;
  kernel.flops = 100'000'000'000;
  EXPECT_EQ(Price(kernel).work, Milliseconds(2));  // 1e11 / (1e14 x 0.5)
  kernel.kind = KernelKind::kAttentionGradient;
  EXPECT_EQ(Price(kernel).work, Milliseconds(4));  // 1e11 / (1e14 x 0.25)
}

// 100 multiprocessors of 0.8 Tflop/s. Four heads of 1024 tokens are 32 blocks of 128 queries. Under
// a mask, the last block of a head attends to all 1024 keys, twice the mean. In its time the device
// could compute 2 x 100 / 32 = 6.25 times the kernel.
TEST_F(KernelPriceTest, AttentionTakesAsLongAsItsLongestThreadBlock) {
  topology::Gpu gpu = gpu_;
  gpu.multiprocessors = 100;
  calibration::KernelCosts costs = RoundCosts();
  costs.attention[2] = {.forward = 0.8, .backward = 0.8, .backward_rows = 64};
  const auto seconds = [&](KernelKind kind, std::int64_t heads, std::int64_t length, bool causal) {
    const Kernel core{.kind = kind,
                      .batch = heads,
                      .m = length,
                      .n = length,
                      .k = 128,
                      .flops = (causal ? 1000 : 2000) * heads * length * length,
                      .flash = 3,
                      .causal = causal};
    const auto demand = PriceKernel(core, {.gpu = gpu, .costs = costs});
    EXPECT_TRUE(demand.has_value());
    return demand.value_or(Demand()).work.seconds();
  };
  constexpr double kFlops = 1000.0 * 4 * 1024 * 1024;
  const double best = kFlops / 80e12;
  EXPECT_NEAR(seconds(KernelKind::kAttention, 4, 1024, true), 6.25 * best, 1e-10);
  EXPECT_NEAR(seconds(KernelKind::kAttentionGradient, 4, 1024, true), 3.125 * best, 1e-10);
  EXPECT_NEAR(seconds(KernelKind::kAttention, 4, 1024, false), 2 * 3.125 * best, 1e-10);
  // The same for any number of heads whose blocks find room at once, and the whole when they do
  // not.
  EXPECT_NEAR(seconds(KernelKind::kAttention, 1, 1024, true), 6.25 * best, 1e-10);
  EXPECT_NEAR(seconds(KernelKind::kAttention, 4000, 1024, true), 1000 * best, 1e-9);
  // One block a head: a quarter of the keys for a quarter of the queries.
  EXPECT_NEAR(seconds(KernelKind::kAttention, 4, 32, true), 6.25 * best / 4 / 32, 1e-11);
  // While the last blocks run, the other multiprocessors wait for half of the longest block's time.
  costs.attention[2].forward_tail = 0.5;
  EXPECT_NEAR(seconds(KernelKind::kAttention, 40, 1024, true), 10 * best * (1 + 0.5 * 0.625),
              1e-10);
}

// 128 heads of 1024 queries see 512 keys on average. 1024 tokens of half_length for heads with keys
// of their own double the kernel's time, 0.125 of them make it an eighth longer.
TEST_F(KernelPriceTest, HeadsThatShareKeysLoadLess) {
  calibration::KernelCosts costs = RoundCosts();
  costs.attention[2] = {.forward = 0.8, .backward = 0.8, .forward_unshared_length = 1024};
  Kernel core{.kind = KernelKind::kAttention,
              .batch = 128,
              .m = 1024,
              .n = 1024,
              .k = 128,
              .key_heads = 128,
              .flops = 1000LL * 128 * 1024 * 1024,
              .flash = 3};
  const auto seconds = [&] {
    return PriceKernel(core, {.gpu = gpu_, .costs = costs})->work.seconds();
  };
  const double best = 1000.0 * 128 * 1024 * 1024 / 80e12;
  EXPECT_NEAR(seconds(), 2 * best, 1e-11);
  core.key_heads = 16;
  EXPECT_NEAR(seconds(), 1.125 * best, 1e-11);
  core.kind = KernelKind::kAttentionGradient;
  EXPECT_NEAR(seconds(), best, 1e-11);
}

TEST_F(KernelPriceTest, TrainingHasNoStartOfServing) {
  calibration::KernelCosts costs = RoundCosts();
  costs.attention[2] = {.forward = 0.8, .backward = 0.8, .forward_start = Microseconds(15)};
  const Kernel core{.kind = KernelKind::kAttention, .flops = 1'000'000, .flash = 3};
  EXPECT_EQ(PriceKernel(core, {.gpu = gpu_, .costs = costs})->latency, Microseconds(2));
  EXPECT_EQ(PriceKernel(core, {.gpu = gpu_, .costs = costs, .serving = true})->latency,
            Microseconds(15));
}

TEST_F(KernelPriceTest, GenerationsOfFusedAttentionDiffer) {
  calibration::KernelCosts costs = RoundCosts();
  costs.attention[0] = {.forward = 0.25, .backward = 0.125};
  costs.attention[2] = {.forward = 0.8, .backward = 0.5};
  const auto work = [&](KernelKind kind, std::uint8_t flash) {
    const Kernel kernel{.name = "core", .kind = kind, .flops = 1'000'000'000, .flash = flash};
    const auto demand = PriceKernel(kernel, {.gpu = gpu_, .costs = costs});
    return demand ? demand->work : Time();
  };
  // 1 Gflop at 25, 12.5, 50, 80 and 50 Tflop/s.
  EXPECT_EQ(work(KernelKind::kAttention, 1), Microseconds(40));
  EXPECT_EQ(work(KernelKind::kAttentionGradient, 1), Microseconds(80));
  EXPECT_EQ(work(KernelKind::kAttention, 2), Microseconds(20));
  EXPECT_EQ(work(KernelKind::kAttention, 3), Nanoseconds(12'500));
  EXPECT_EQ(work(KernelKind::kAttentionGradient, 3), Microseconds(20));
  // cuDNN's is FlashAttention-2 where the profile does not know it.
  EXPECT_EQ(work(KernelKind::kAttention, 4), Microseconds(20));
  costs.attention[3] = {.forward = 0.4, .backward = 0.5};
  EXPECT_EQ(work(KernelKind::kAttention, 4), Microseconds(25));
  // FlexAttention reaches 0.9 and 0.85 of FlashAttention-2, 50 and 25 Tflop/s, where the profile
  // does not know it.
  EXPECT_NEAR(work(KernelKind::kAttention, 5).seconds(), 20e-6 / 0.9, 1e-11);
  EXPECT_NEAR(work(KernelKind::kAttentionGradient, 5).seconds(),
              work(KernelKind::kAttentionGradient, 2).seconds() / 0.85, 1e-11);
  costs.attention[4] = {.forward = 0.2, .backward = 0.5};
  EXPECT_EQ(work(KernelKind::kAttention, 5), Microseconds(50));
  // A generation that the profile does not know has no price.
  const Kernel unknown{.kind = KernelKind::kAttention, .flops = 1, .flash = 3};
  EXPECT_EQ(PriceKernel(unknown, {.gpu = gpu_, .costs = costs_}).error(),
            KernelFault::kNoEfficiency);
}

// 2 us to start and 1 us per megabyte up to the last point, on a memory of 1 TB/s; beyond it no
// faster than the memory.
TEST_F(KernelPriceTest, NoCurveGoesOnFasterThanTheMemory) {
  calibration::KernelCosts costs = RoundCosts();
  topology::Gpu gpu = gpu_;
  gpu.memory_bandwidth = Bandwidth::GigabytesPerSecond(1000);
  costs.memory_curve = {{Bytes(1'000'000), Microseconds(3)}, {Bytes(8'000'000), Microseconds(6)}};
  const auto time = [&](std::int64_t megabytes) {
    const Kernel kernel{.name = "copy", .read = Bytes(megabytes * 1'000'000)};
    const auto demand = PriceKernel(kernel, {.gpu = gpu_, .costs = costs});
    return demand ? demand->latency + demand->work : Time();
  };
  EXPECT_EQ(time(8), Microseconds(6));  // measured, in a cache
  // The line would say 6 + 92 x 3 / 7 us.
  EXPECT_EQ(time(100), Microseconds(100));
}

TEST_F(KernelPriceTest, SumsOverTokensWaitForLatency) {
  calibration::KernelCosts costs = RoundCosts();
  costs.token_sum_time = Nanoseconds(50);
  Kernel kernel{.name = "ln.wgrad", .read = Bytes(1'000'000)};
  const auto work = [&] { return PriceKernel(kernel, {.gpu = gpu_, .costs = costs})->work; };
  EXPECT_EQ(work(), Microseconds(2));  // 1 MB at half of 1 TB/s
  // 1000 tokens, one after the other, whether one block of 32 columns or one for each of the 100
  // multiprocessors; with 200 blocks twice as long.
  kernel.summed_tokens = 1000;
  for (const std::int64_t columns : {32, 3200}) {
    kernel.summed_columns = columns;
    EXPECT_EQ(work(), Microseconds(50));
  }
  kernel.summed_columns = 6400;
  EXPECT_EQ(work(), Microseconds(100));
  kernel.read = Bytes(1'000'000'000);  // bandwidth bounds it again
  EXPECT_EQ(work(), Milliseconds(2));
}

TEST_F(KernelPriceTest, ProductsInTilesStartAsTheTilingSays) {
  calibration::KernelCosts costs = RoundCosts();
  costs.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)] = {
      .tiles = {{100, 100, 0.5}}, .fill = 0, .start = Microseconds(5)};
  Kernel kernel = Gemm(2 * 1000 * 1000 * 500, Bytes(), Bytes());
  kernel.m = kernel.n = 1000;
  kernel.k = 500;
  // 100 tiles on 100 multiprocessors: 1 Gflop at half of 100 Tflop/s.
  const auto demand = PriceKernel(kernel, {.gpu = gpu_, .costs = costs});
  EXPECT_EQ(demand->work, Microseconds(20));
  EXPECT_EQ(demand->latency, Microseconds(5));
}

// 150 tiles take two waves, which need 75 multiprocessors. On Hopper the product holds them until
// it ends. Other devices' products hold none.
TEST_F(KernelPriceTest, AProductOfHopperKeepsTheMultiprocessorsOfItsWaves) {
  calibration::KernelCosts costs = RoundCosts();
  calibration::GemmTiling& tiling = costs.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)];
  tiling = {.tiles = {{100, 100, 0.5}}, .fill = 0, .start = {}};
  Kernel kernel = Gemm(2LL * 1500 * 1000 * 500, Bytes(), Bytes());
  kernel.m = 1500;
  kernel.n = 1000;
  kernel.k = 500;
  topology::Gpu gpu = gpu_;
  const auto price = [&] { return *PriceKernel(kernel, {.gpu = gpu, .costs = costs}); };
  constexpr auto kCompute = static_cast<std::size_t>(Resource::kCompute);
  gpu.compute_capability = 80;
  const Demand plain = price();
  EXPECT_EQ(plain.occupancy, Occupancy::kTurns);
  EXPECT_EQ(plain.share[kCompute], 1);
  gpu.compute_capability = 90;
  const Demand persistent = price();
  EXPECT_EQ(persistent.occupancy, Occupancy::kPersistent);
  EXPECT_EQ(persistent.share[kCompute], 0.75);
  EXPECT_EQ(persistent.work, plain.work);

  // Tiles of 256 x 128 where the profile names none: 6 x 8.
  tiling = {};
  const Demand efficient = price();
  EXPECT_EQ(efficient.occupancy, Occupancy::kPersistent);
  EXPECT_EQ(efficient.share[kCompute], 0.48);
  costs.gemm_surface[static_cast<std::size_t>(DataType::kBf16)] = {
      .m = {1500}, .n = {1000}, .k = {500}, .times = {Microseconds(50)}};
  const Demand measured = price();
  EXPECT_EQ(measured.work, Microseconds(50) - costs.start_latency);
  EXPECT_EQ(measured.occupancy, Occupancy::kPersistent);
  EXPECT_EQ(measured.share[kCompute], 0.48);
}

// 40 tiles of 256 x 128 on 100 multiprocessors take a wave, the same time as 100 tiles. Three such
// products at once have 120 tiles in two waves, of which each product takes a third.
TEST_F(KernelPriceTest, ProductsThatRunAtOnceShareTheirWaves) {
  calibration::KernelCosts costs = RoundCosts();
  costs.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)] = {
      .tiles = {{.m = 256, .n = 128, .efficiency = 0.5}}, .start = Microseconds(3)};
  Kernel product{.kind = KernelKind::kGemm, .m = 512, .n = 2560, .k = 256};
  product.flops = 2 * product.m * product.n * product.k;
  const auto price = [&] { return *PriceKernel(product, {.gpu = gpu_, .costs = costs}); };
  const Demand alone = price();
  product.together = 3;
  const Demand one_of_three = price();
  EXPECT_EQ(one_of_three.work, ScaledTime(alone.work, 2, 3));
  EXPECT_EQ(one_of_three.latency, Microseconds(1));
}

// A wave that leaves half of the multiprocessors idle draws half of the power. The others sustain a
// higher clock, so less than the wave is lost.
TEST_F(KernelPriceTest, ProductsThatLeaveMultiprocessorsIdleHoldAHigherClock) {
  calibration::KernelCosts costs = RoundCosts();
  costs.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)] = {
      .tiles = {{100, 100, 0.5}}, .fill = 0, .start = {}};
  costs.gemm[static_cast<std::size_t>(DataType::kBf16)] = {};
  costs.power = {.idle = 100, .products = 4800};
  double limit = 0;
  const auto work = [&](std::int64_t rows) {
    Kernel kernel = Gemm(2 * rows * 1000 * 500, Bytes(), Bytes());
    kernel.m = rows;
    kernel.n = 1000;
    kernel.k = 500;
    return PriceKernel(kernel, {.gpu = gpu_, .costs = costs, .limit_watts = limit})->work.seconds();
  };
  EXPECT_NEAR(work(1000), 20e-6, 1e-12);  // 100 tiles, one wave; nothing is known of power
  EXPECT_NEAR(work(1500), 40e-6, 1e-12);  // 150 tiles, two waves
  limit = 700;
  EXPECT_NEAR(work(1000), 40e-6, 1e-11);  // (700 - 100) / 4800 is 1/8: half of the clock
  // Three quarters of the rate: the clock is the cube root of 1/6.
  EXPECT_NEAR(work(1500), 40e-6 * std::cbrt(6), 1e-11);
  limit = 3700;  // (3700 - 100) / 4800 is three quarters
  EXPECT_NEAR(work(1000), 20e-6 / std::cbrt(0.75), 1e-11);
  EXPECT_NEAR(work(1500), 40e-6, 1e-11);
}

// 300 MB at half of 1 TB/s take 600 us; at three quarters of that rate 800 us, of which the memory
// is busy for 600.
TEST_F(KernelPriceTest, SomeKernelsDoNotKeepUpWithTheMemory) {
  calibration::KernelCosts costs = costs_;
  costs.traffic[static_cast<std::size_t>(Access::kWidening)] = 0.75;
  Kernel cast;
  cast.kind = KernelKind::kMemoryBound;
  cast.read = Bytes(100'000'000);
  cast.written = Bytes(200'000'000);
  const auto price = [&] { return *PriceKernel(cast, {.gpu = gpu_, .costs = costs}); };
  EXPECT_EQ(price().work, Microseconds(600));
  cast.access = Access::kWidening;
  EXPECT_EQ(price().work, Microseconds(800));
  EXPECT_DOUBLE_EQ(Share(price(), Resource::kCompute), 1);
  EXPECT_DOUBLE_EQ(Share(price(), Resource::kMemory), 0.75);
  cast.access = Access::kMixed;  // of which nothing is known
  EXPECT_EQ(price().work, Microseconds(600));
}

TEST_F(KernelPriceTest, NormalisationIsBoundByMemory) {
  Kernel kernel;
  kernel.kind = KernelKind::kMemoryBound;
  kernel.flops = 250'000'000;  // 25 us at the FP32 peak
  kernel.read = Bytes(30'000'000);
  kernel.written = Bytes(20'000'000);
  const Demand demand = Price(kernel);
  EXPECT_EQ(demand.work, Microseconds(100));
  EXPECT_DOUBLE_EQ(Share(demand, Resource::kCompute), 0.25);
  EXPECT_DOUBLE_EQ(Share(demand, Resource::kMemory), 1);
}

TEST_F(KernelPriceTest, AdamMovesTwentyEightBytesForEachParameter) {
  Kernel kernel;
  kernel.kind = KernelKind::kOptimizer;
  kernel.data_type = DataType::kFp32;
  kernel.read = Bytes(16 * 1'000'000);
  kernel.written = Bytes(12 * 1'000'000);
  EXPECT_EQ(Price(kernel).work, Microseconds(56));  // 28e6 / 0.5e12
}

TEST_F(KernelPriceTest, NothingToDoStillStarts) {
  const Demand demand = Price({});
  EXPECT_EQ(demand.uncontended(), Microseconds(2));
  EXPECT_EQ(demand.share, (std::array<double, kResources>{}));
}

TEST_F(KernelPriceTest, TextbookKernelsStartAtOnce) {
  const Demand demand = Price(Gemm(76'000'000'000, Bytes(0), Bytes(0)), false);
  EXPECT_EQ(demand.latency, Time());
  EXPECT_EQ(demand.work, Milliseconds(1));
}

TEST_F(KernelPriceTest, GivenTimeIsExact) {
  Kernel kernel;
  kernel.kind = KernelKind::kGiven;
  kernel.given = Picoseconds(10'000'000'001);
  for (const Demand& demand : {Price(kernel), PriceGivenKernel(kernel)}) {
    EXPECT_EQ(demand.latency, Time());
    EXPECT_EQ(demand.work, Picoseconds(10'000'000'001));
    EXPECT_DOUBLE_EQ(Share(demand, Resource::kCompute), 1);
    EXPECT_EQ(demand.provenance, Provenance::kGiven);
  }
}

TEST_F(KernelPriceTest, WhatTheHostDoesTakesNothingOfTheDevice) {
  Kernel kernel;
  kernel.kind = KernelKind::kGiven;
  kernel.given = Milliseconds(3);
  kernel.on_host = true;
  const Demand demand = PriceGivenKernel(kernel);
  EXPECT_EQ(demand.work, Milliseconds(3));
  EXPECT_DOUBLE_EQ(Share(demand, Resource::kCompute), 0);
}

TEST_F(KernelPriceTest, SaysWhyThereIsNoPrice) {
  Kernel kernel = Gemm(1'000'000, Bytes(0), Bytes(0));
  kernel.data_type = DataType::kFp8;  // no peak
  auto demand = PriceKernel(kernel, {.gpu = gpu_, .costs = costs_});
  ASSERT_FALSE(demand.has_value());
  EXPECT_EQ(demand.error(), KernelFault::kNoPeak);

  kernel.data_type = DataType::kFp32;  // a peak, and no efficiency
  demand = PriceKernel(kernel, {.gpu = gpu_, .costs = costs_});
  ASSERT_FALSE(demand.has_value());
  EXPECT_EQ(demand.error(), KernelFault::kNoEfficiency);
}

RC_GTEST_FIXTURE_PROP(KernelPriceTest, IsNeverFasterThanTheDevice, ()) {
  Kernel kernel = Gemm(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000'000),
                       Bytes(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000)),
                       Bytes(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000)));
  kernel.kind =
      *rc::gen::element(KernelKind::kGemm, KernelKind::kAttention, KernelKind::kAttentionGradient,
                        KernelKind::kMemoryBound, KernelKind::kOptimizer);
  const Demand demand = Price(kernel);
  RC_ASSERT(demand.uncontended() >= TimeFor(kernel.flops, gpu_.PeakOf(DataType::kBf16)));
  RC_ASSERT(demand.uncontended() >= (kernel.read + kernel.written) / gpu_.memory_bandwidth);
  for (double share : demand.share) RC_ASSERT(share >= 0 && share <= 1);
}

RC_GTEST_FIXTURE_PROP(KernelPriceTest, MoreWorkTakesMoreTime, ()) {
  const auto flops = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
  const auto bytes = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000);
  const auto more = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000);
  const Time time = Price(Gemm(flops, Bytes(bytes), Bytes(0))).uncontended();
  RC_ASSERT(Price(Gemm(flops + more, Bytes(bytes), Bytes(0))).uncontended() >= time);
  RC_ASSERT(Price(Gemm(flops, Bytes(bytes), Bytes(more))).uncontended() >= time);
}

}  // namespace
}  // namespace stepcast::cost
