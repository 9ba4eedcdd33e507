#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "src/base/rates.h"
#include "src/cost/kernel_price.h"

namespace stepcast::cost {
namespace {

using calibration::GemmTiling;

Kernel Product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
  return {.kind = KernelKind::kGemm,
          .batch = batch,
          .m = m,
          .n = n,
          .k = k,
          .flops = 2 * batch * m * n * k};
}

// Ten multiprocessors of 1 Tflop/s each.
TileSetting Setting(const GemmTiling& tiling) {
  return {.tiling = tiling,
          .peak = FlopRate::TeraflopsPerSecond(10),
          .multiprocessors = 10,
          .memory = Bandwidth::GigabytesPerSecond(1000),
          .start_latency = Microseconds(2)};
}

TEST(GemmTiles, CountsWavesOfTiles) {
  const GemmTiling tiling{.tiles = {{128, 128, 0.5}}, .fill = 0, .start = {}};
  // 10 tiles of 128 x 128 x 500: one wave. A multiprocessor at half of 1 Tflop/s needs
  // 2 x 128 x 128 x 500 / 0.5e12 = 32.768 us. k is too short to be split.
  EXPECT_EQ(TiledArithmetic(Product(1280, 128, 500), Setting(tiling)).time, Nanoseconds(32'768));
  // One row more is an eleventh tile, and a second wave.
  EXPECT_EQ(TiledArithmetic(Product(1281, 128, 500), Setting(tiling)).time, Nanoseconds(65'536));
  // Two products of five tiles each fill the device as one of ten does.
  EXPECT_EQ(TiledArithmetic(Product(640, 128, 500, 2), Setting(tiling)).time, Nanoseconds(32'768));
}

// 11 tiles are a wave of 10 and one of 1. A third of the second wave's 9 idle tenths counts: 1.1 +
// 0.3 waves.
TEST(GemmTiles, LastWaveCostsAPartOfWhatIsIdle) {
  const GemmTiling tiling{.tiles = {{128, 128, 0.5}}, .fill = 0, .last_wave = 1.0 / 3, .start = {}};
  EXPECT_EQ(TiledArithmetic(Product(1281, 128, 500), Setting(tiling)).time,
            Picoseconds(45'875'200));
  // One wave takes its time, however few its tiles are.
  EXPECT_EQ(TiledArithmetic(Product(128, 128, 500), Setting(tiling)).time, Nanoseconds(32'768));
}

// The sum of four parts moves 8 x 128 x 128 x 4 bytes, or a quarter of them if the cache holds
// parts.
TEST(GemmTiles, SumsPartsOfKThroughTheCache) {
  GemmTiling tiling{.tiles = {{128, 128, 0.5}}, .fill = 0, .start = {}};
  const Kernel product = Product(128, 128, 1'048'576);
  const Time whole = TiledArithmetic(product, Setting(tiling)).time;
  tiling.split = 0.25;
  EXPECT_LT(TiledArithmetic(product, Setting(tiling)).time, whole);
  tiling.split = 1000;
  const Kernel flat = Product(128, 128, 1024);
  EXPECT_EQ(TiledArithmetic(flat, Setting(tiling)).time, Picoseconds(67'108'864));
}

TEST(GemmTiles, FillLengthensEveryWave) {
  const GemmTiling tiling{.tiles = {{128, 128, 0.5}}, .fill = 100, .start = {}};
  // (500 + 100) / 500 of the time without.
  EXPECT_EQ(TiledArithmetic(Product(1280, 128, 500), Setting(tiling)).time,
            Picoseconds(39'321'600));
}

// (500 + 100 + 300) / 500 of the time without, with 4 bytes an element read and stored. The number
// of multiprocessors is unchanged: 10 for 10 tiles, 8 for 15 in two waves.
TEST(GemmTiles, AddingToFp32LengthensEveryWave) {
  GemmTiling tiling{.tiles = {{128, 128, 0.5}}, .fill = 100, .add_fill = 300, .start = {}};
  Kernel product = Product(1280, 128, 500);
  EXPECT_EQ(TiledArithmetic(product, Setting(tiling)).multiprocessors, 10);
  product.adds_to_fp32 = true;
  EXPECT_EQ(TiledArithmetic(product, Setting(tiling)).time, Picoseconds(58'982'400));
  EXPECT_EQ(TiledArithmetic(Product(1920, 128, 500), Setting(tiling)).multiprocessors, 8);
}

// Three experts of 130 rows are 3 x 2 tiles of 128, one wave of ten multiprocessors. Each tile
// takes 2 x 128 x 128 x 1024 / 0.5e12 s.
TEST(GemmTiles, ExpertsShareWaves) {
  const GemmTiling tiling{.tiles = {{128, 128, 0.5}}, .fill = 0, .start = {}};
  Kernel experts = Product(130, 128, 1024, 3);
  experts.grouped = true;
  EXPECT_EQ(TiledArithmetic(experts, Setting(tiling)).time, Picoseconds(67'108'864));
  EXPECT_EQ(TiledArithmetic(experts, Setting(tiling)).multiprocessors, 6);
  // 3 x 4 tiles are two waves.
  experts.m = 390;
  EXPECT_EQ(TiledArithmetic(experts, Setting(tiling)).time, Picoseconds(134'217'728));
  // At half of the tiles' rate they take twice as long; batches do not.
  const GemmTiling slow{.tiles = {{128, 128, 0.5}}, .fill = 0, .grouped = 0.5, .start = {}};
  EXPECT_EQ(TiledArithmetic(experts, Setting(slow)).time, Picoseconds(268'435'456));
  EXPECT_EQ(TiledArithmetic(Product(390, 128, 500, 3), Setting(slow)).time,
            TiledArithmetic(Product(390, 128, 500, 3), Setting(tiling)).time);
  // One expert of 128 rows is not divided either. As a single product it is: two parts take half of
  // the time, and their sum 2 us and 8 x 128 x 128 x 2 bytes.
  experts = Product(128, 128, 1024);
  const Kernel single = experts;
  experts.grouped = true;
  EXPECT_EQ(TiledArithmetic(experts, Setting(tiling)).time, Picoseconds(67'108'864));
  EXPECT_EQ(TiledArithmetic(single, Setting(tiling)).time,
            Picoseconds(33'554'432 + 2'000'000 + 262'144));
}

TEST(GemmTiles, TakesTheFastestShapeEitherWayRound) {
  const GemmTiling tiling{.tiles = {{256, 128, 0.8}, {64, 64, 0.4}}, .fill = 0, .start = {}};
  // 2560 x 128: ten tiles of 256 x 128. 128 x 2560: ten of 128 x 256. Each 2 x 256 x 128 x 500 /
  // 0.8e12 = 40.96 us; 80 tiles of 64 x 64 are 8 waves of 10.24 us.
  EXPECT_EQ(TiledArithmetic(Product(2560, 128, 500), Setting(tiling)).time, Nanoseconds(40'960));
  EXPECT_EQ(TiledArithmetic(Product(128, 2560, 500), Setting(tiling)).time, Nanoseconds(40'960));
  // One small tile's worth: 2 x 64 x 64 x 500 / 0.4e12.
  EXPECT_EQ(TiledArithmetic(Product(64, 64, 500), Setting(tiling)).time, Nanoseconds(10'240));
}

TEST(GemmTiles, SplitsADeepThinProduct) {
  const GemmTiling tiling{.tiles = {{128, 128, 0.5}}, .fill = 0, .start = {}};
  // One tile, k = 8192. Whole: 2 x 128 x 128 x 8192 / 0.5e12 = 536.870912 us on one of ten
  // multiprocessors. In eight parts, one wave: 67.108864 us, and a kernel that adds up 8 x 128 x
  // 128 numbers at 8 bytes each: 2 us + 1.048576 us.
  EXPECT_EQ(TiledArithmetic(Product(128, 128, 8192), Setting(tiling)).time,
            Picoseconds(67'108'864 + 2'000'000 + 1'048'576));
}

TEST(GemmTiles, TilesTakeLongerAtAPartOfTheirRate) {
  const GemmTiling tiling{.tiles = {{128, 128, 0.5}}, .fill = 0, .start = {}};
  TileSetting setting = Setting(tiling);
  setting.rate = 0.5;
  EXPECT_EQ(TiledArithmetic(Product(1280, 128, 500), setting).time, Nanoseconds(65'536));
}

RC_GTEST_PROP(GemmTiles, NeverBeatThePeakAndNeverGetFasterWithMoreWork, ()) {
  const GemmTiling tiling{.tiles = {{256, 128, 1}, {128, 128, 0.9}, {64, 64, 0.5}},
                          .fill = static_cast<double>(*rc::gen::inRange(0, 300)),
                          .start = {}};
  const TileSetting setting = Setting(tiling);
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 9000); };
  const Kernel product = Product(size(), size(), size(), *rc::gen::inRange<std::int64_t>(1, 5));
  const Time time = TiledArithmetic(product, setting).time;
  RC_ASSERT(time >= TimeFor(product.flops, setting.peak));
  RC_ASSERT(
      TiledArithmetic(Product(product.m + 1, product.n, product.k, product.batch), setting).time >=
      time);
  RC_ASSERT(
      TiledArithmetic(Product(product.m, product.n + 1, product.k, product.batch), setting).time >=
      time);
}

// A batch can be divided over k, and keeps the tiles' rate.
RC_GTEST_PROP(GemmTiles, OneKernelForAllExpertsIsNoFasterThanABatch, ()) {
  const GemmTiling tiling{.tiles = {{256, 128, 1}, {128, 128, 0.9}, {64, 64, 0.5}},
                          .fill = static_cast<double>(*rc::gen::inRange(0, 300)),
                          .grouped = 0.01 * *rc::gen::inRange(5, 101),
                          .start = {}};
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 9000); };
  Kernel experts = Product(size(), size(), size(), *rc::gen::inRange<std::int64_t>(1, 100));
  const Time batch = TiledArithmetic(experts, Setting(tiling)).time;
  experts.grouped = true;
  RC_ASSERT(TiledArithmetic(experts, Setting(tiling)).time >= batch);
}

}  // namespace
}  // namespace stepcast::cost
