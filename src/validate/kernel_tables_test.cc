#include "src/validate/kernel_tables.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

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
        row.microseconds =
            cost::PriceKernel(row.kernel, {.gpu = gpu, .costs = costs})->alone().microseconds();
        rows.push_back(row);
      }
    }
  }
  calibration::KernelCosts fitted = costs;
  auto& tiling = fitted.gemm_tiling[static_cast<std::size_t>(DataType::kBf16)];
  tiling = FitTiles(rows, gpu, fitted, DataType::kBf16);
  EXPECT_LT(ErrorsOf(rows, gpu, fitted).mean, 0.02);
}

}  // namespace
}  // namespace stepcast::validate
