#include "src/validate/kernel_tables.h"

#include <filesystem>
#include <fstream>
#include <tuple>
#include <utility>

#include "gtest/gtest.h"
#include "src/cost/kernel_price.h"

namespace stepcast::validate {
namespace {

topology::Gpu SampleGpu() {
  topology::Gpu gpu{.name = "sample",
                    .memory = GiB(80),
                    .memory_bandwidth = Bandwidth::GigabytesPerSecond(2000),
                    .peak = {},
                    .multiprocessors = 100};
  gpu.peak[static_cast<std::size_t>(DataType::kBf16)] = FlopRate::TeraflopsPerSecond(1000);
  gpu.peak[static_cast<std::size_t>(DataType::kFp8)] = FlopRate::TeraflopsPerSecond(2000);
  return gpu;
}

// A folder of tables, recreated for each test.
class KernelTables : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const std::string folder_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(KernelTables, ReadsProductsWithoutCasts) {
  Write("products/sample.csv",
        "m,n,k,bf16_us,fp8_us,fp8_net_us\n"
        "4096,4096,4096,200,130,110\n"
        "256,4096,4096,25,20,15\n"     // too few rows
        "512,512,512,3,,\n"            // too short
        "16384,16384,8192,9000,,\n");  // long enough for the power limit to act
  const auto tables = ReadKernelTables(folder_, SampleGpu(), 2);
  ASSERT_TRUE(tables.has_value());
  ASSERT_EQ(tables->products.at(DataType::kBf16).size(), 1);
  const MeasuredKernel& bf16 = tables->products.at(DataType::kBf16).front();
  EXPECT_EQ(bf16.microseconds, 200);
  EXPECT_EQ(bf16.kernel.flops, std::int64_t{2} * 4096 * 4096 * 4096);
  EXPECT_EQ(bf16.shape, "4096 x 4096");
  EXPECT_EQ(tables->products.at(DataType::kFp8).front().microseconds, 110);
  ASSERT_EQ(tables->sustained.at(DataType::kBf16).size(), 1);
  EXPECT_EQ(tables->sustained.at(DataType::kBf16).front().microseconds, 9000);
}

TEST_F(KernelTables, ReadsAttentionUnderAWindow) {
  Write("attention/causal-sample.csv",
        "heads,kv_heads,head,window,batch,length,bf16_us\n"
        "32,8,128,128,4,4096,150\n"
        "32,8,72,0,4,4096,150\n");  // a head size without a measured rate
  const auto tables = ReadKernelTables(folder_, SampleGpu(), 2);
  ASSERT_TRUE(tables.has_value());
  ASSERT_EQ(tables->attention.size(), 1);
  const Kernel& kernel = tables->attention.front().kernel;
  EXPECT_EQ(kernel.batch, 128);
  EXPECT_EQ(kernel.n, 128);
  EXPECT_EQ(kernel.flops, std::int64_t{4} * 128 * (4096 * 128 - 128 * 128 / 2) * 128);
}

// Four sequences of 4096 tokens, 2 heads of 128 with one key head. vLLM reads 8 MB of keys and
// values and writes them to its cache; TensorRT-LLM also rotates 12 MB of queries and keys.
TEST_F(KernelTables, SeparatesWhatServingDoesBesidesAttention) {
  const std::string rows =
      "heads,kv_heads,head,window,batch,length,bf16_us,bf16_by\n"
      "2,1,128,0,4,4096,150,S\n"
      "2,1,128,0,4,4096,150,V\n"
      "2,1,128,0,4,4096,150,T\n";
  Write("attention/causal-sample.csv", rows);
  topology::Gpu gpu = SampleGpu();
  const auto without = ReadKernelTables(folder_, gpu, 2);
  ASSERT_TRUE(without.has_value());
  const auto& [alone, cached, rotated] =
      std::tie(without->attention[0], without->attention[1], without->attention[2]);
  EXPECT_EQ(alone.besides, 0);
  EXPECT_EQ(alone.kernel.key_heads, 4);
  // 4 x 4096 tokens x 128 x 2 (keys, values) x 2 bytes, read and written: 16.8 MB at 2 TB/s.
  EXPECT_NEAR(cached.besides, 16'777'216 / 2e6, 1e-9);
  // And 2 + 1 heads rotated: 25.2 MB more. No heads share a block.
  EXPECT_NEAR(rotated.besides, (16'777'216 + 25'165'824) / 2e6, 1e-9);
  EXPECT_EQ(rotated.kernel.key_heads, 8);
  EXPECT_EQ(rotated.kernel.read, alone.kernel.read);
  // A cache that holds everything passes 5 TB/s.
  gpu.l2_cache = MiB(500);
  EXPECT_NEAR(ReadKernelTables(folder_, gpu, 2)->attention[1].besides, 16'777'216 / 5e6, 1e-9);
}

// 8192 tokens choose 4 of 64 experts on 8 ranks: 8 experts with 512 rows each.
TEST_F(KernelTables, ReadsLayersOfExperts) {
  Write("products/sample.csv", "m,n,k,bf16_us\n4096,4096,4096,200\n");
  Write("grouped/sample.csv",
        "hidden,inter,topk,experts,gated,tp,ep,tokens,bf16_even_us,fp8_even_us\n"
        "2048,1024,4,64,1,2,8,8192,400,300\n"
        "2048,1024,4,64,0,2,8,8192,400,\n"
        "2048,1024,4,64,1,2,8,8192,15,\n");  // too short
  const auto tables = ReadKernelTables(folder_, SampleGpu(), 2);
  ASSERT_TRUE(tables.has_value());
  const auto& bf16 = tables->experts.at(DataType::kBf16);
  ASSERT_EQ(bf16.size(), 2);
  ASSERT_EQ(bf16[0].products.size(), 2);
  const Kernel& up = bf16[0].products[0];
  EXPECT_TRUE(up.grouped);
  EXPECT_EQ(up.batch, 8);
  EXPECT_EQ(up.m, 512);
  EXPECT_EQ(up.n, 2 * 512);
  EXPECT_EQ(up.k, 2048);
  EXPECT_EQ(up.flops, 8LL * 2 * 512 * 1024 * 2048);
  EXPECT_EQ(bf16[0].products[1].n, 2048);
  EXPECT_EQ(bf16[0].products[1].k, 512);
  EXPECT_EQ(bf16[1].products[0].n, 512);  // no gate
  EXPECT_EQ(bf16[0].choices, 8192 * 4);
  // 4096 rows: read and written once by the permutation, 3 x 512 and 2 x 512 numbers by the
  // activation, and summed to 8192 tokens.
  EXPECT_EQ(bf16[0].bytes, 2.0 * (2 * 4096 * 2048 + 3 * 4096 * 512 + (4096 + 8192) * 2048));
  EXPECT_EQ(bf16[1].bytes, 2.0 * (2 * 4096 * 2048 + 2 * 4096 * 512 + (4096 + 8192) * 2048));
  // The products' operands, 4096 x (2048 + 512) numbers, are written in one byte instead of two.
  EXPECT_NEAR(tables->experts.at(DataType::kFp8).front().bytes,
              bf16[0].bytes - 1.0 * 4096 * (2048 + 512), 1e-6);
}

TEST_F(KernelTables, ReadsCollectivesByRelease) {
  Write("collectives/nccl.csv",
        "gpu,release,op,ranks,bytes,us\n"
        "sample,2.29.2,all_reduce,8,1024,10\n"
        "sample,2.29.2,all_reduce,8,1024,12\n"
        "sample,2.29.2,all_reduce,8,4096,13\n"
        "sample,2.27.5,all_to_all,2,1024,5\n"
        "other,2.29.2,all_reduce,8,1024,50\n");
  const auto files = ReadCollectiveTable(folder_, SampleGpu(), "topologies/x.yaml", true);
  ASSERT_TRUE(files.has_value());
  ASSERT_EQ(files->size(), 2);
  EXPECT_EQ(files->front().nccl, (Version{2, 27}));
  const calibration::CollectiveCurve& curve = files->back().curves.front();
  EXPECT_EQ(curve.fit, (std::vector<calibration::TimePoint>{{KiB(1), Microseconds(11)}}));
  EXPECT_EQ(curve.held_back, (std::vector<calibration::TimePoint>{{KiB(4), Microseconds(13)}}));
}

// Eight GPUs of one host have a fourteenth of the bandwidth of two; those of another host have
// half.
TEST_F(KernelTables, LeavesOutHostsWithoutPeerAccess) {
  Write("collectives/nccl.csv",
        "gpu,release,op,ranks,bytes,us\n"
        "sample,2.27.3,all_gather,2,1048576,50\n"
        "sample,2.27.3,all_gather,8,1048576,1200\n"
        "sample,2.27.3,all_to_all,2,1048576,50\n"
        "sample,2.27.3,all_to_all,8,1048576,175\n");
  const auto files = ReadCollectiveTable(folder_, SampleGpu(), "topologies/x.yaml", false);
  ASSERT_TRUE(files.has_value());
  std::vector<std::pair<CollectiveKind, int>> left;
  for (const auto& curve : files->front().curves) left.emplace_back(curve.collective, curve.ranks);
  using Kind = CollectiveKind;
  EXPECT_EQ(left,
            (decltype(left){{Kind::kAllGather, 2}, {Kind::kAllToAll, 2}, {Kind::kAllToAll, 8}}));
}

TEST_F(KernelTables, NamesWhatIsMissing) {
  Write("products/sample.csv", "m,n,bf16_us\n4096,4096,200\n");
  const auto tables = ReadKernelTables(folder_, SampleGpu(), 2);
  ASSERT_FALSE(tables.has_value());
  EXPECT_EQ(tables.error().front().code, "atlas.column");
  Write("products/sample.csv", "m,n,k,bf16_us\n4096,4096,4096,fast\n");
  const auto numbers = ReadKernelTables(folder_, SampleGpu(), 2);
  ASSERT_FALSE(numbers.has_value());
  EXPECT_EQ(numbers.error().front().code, "atlas.number");
  EXPECT_EQ(numbers.error().front().location.line, 2);
  const auto nothing = ReadKernelTables(folder_ + "/none", SampleGpu(), 2);
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().front().code, "file.not-found");
}

// Products generated from tiles are fitted by tiles within 2 %.
TEST(RateFit, FindsTilesAgain) {
  const topology::Gpu gpu = SampleGpu();
  calibration::KernelCosts costs;
  costs.memory_efficiency = 0.8;
  costs.start_latency = Microseconds(2);
  costs.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)] = {
      .tiles = {{256, 128, 0.8}, {128, 128, 0.7}, {64, 64, 0.5}},
      .fill = 200,
      .last_wave = 0.4,
      .start = Microseconds(3)};
  std::vector<MeasuredKernel> rows;
  for (const std::int64_t m : {512, 1024, 2048, 4096, 4097, 8192}) {
    for (const std::int64_t n : {1024, 2560, 4096, 7168}) {
      for (const std::int64_t k : {1024, 4096}) {
        MeasuredKernel row{
            .kernel = {.kind = KernelKind::kGemm, .m = m, .n = n, .k = k, .flops = 2 * m * n * k},
            .shape = std::to_string(n)};
        row.microseconds = cost::PriceKernel(row.kernel, {.gpu = gpu, .costs = costs})
                               ->uncontended()
                               .microseconds();
        rows.push_back(row);
      }
    }
  }
  calibration::KernelCosts fitted = costs;
  auto& tiling = fitted.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)];
  tiling = FitTiles(rows, gpu, fitted, DataType::kBf16);
  EXPECT_LT(ErrorsOf(rows, gpu, fitted).mean, 0.02);
}

// The rate of grouped kernels is found again, with the time of routing besides.
TEST(RateFit, FindsTheRateOfGroupedKernelsAgain) {
  const topology::Gpu gpu = SampleGpu();
  calibration::KernelCosts costs;
  costs.memory_efficiency = 0.8;
  costs.start_latency = Microseconds(2);
  calibration::GemmTiling& tiling = costs.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)];
  tiling = {.tiles = {{128, 128, 0.8}, {64, 64, 0.5}}, .fill = 200, .start = Microseconds(3)};
  tiling.grouped = 0.6;
  std::vector<MeasuredExperts> rows;
  for (const std::int64_t each : {64, 128, 256, 512, 1024}) {
    for (const std::int64_t inner : {768, 1536, 3072}) {
      MeasuredExperts row{.products = {}, .shape = std::to_string(inner)};
      const std::pair<std::int64_t, std::int64_t> sizes[] = {{inner, 2048}, {2048, inner}};
      for (const auto& [n, k] : sizes) {
        row.products.push_back({.kind = KernelKind::kGemm,
                                .batch = 16,
                                .m = each,
                                .n = n,
                                .k = k,
                                .grouped = true,
                                .flops = 2 * 16 * each * n * k});
        row.microseconds += cost::PriceKernel(row.products.back(), {.gpu = gpu, .costs = costs})
                                ->uncontended()
                                .microseconds();
      }
      row.choices = static_cast<double>(16 * each);
      row.microseconds += 30 + 2e-4 * row.choices;
      rows.push_back(std::move(row));
    }
  }
  EXPECT_LT(ErrorsOf(rows, gpu, costs).mean, 0.01);
  tiling.grouped = 1;
  EXPECT_NEAR(FitGrouped(rows, gpu, costs, DataType::kBf16), 0.6, 0.03);
}

}  // namespace
}  // namespace stepcast::validate
