#include "src/scenario/gpu_file.h"

#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/data_type.h"
#include "src/scenario/data_root.h"

namespace stepcast::scenario {
namespace {

struct Sheet {
  const char* name;
  double memory_gib;  // rounded down
  int memory_bandwidth_gigabytes;
  int multiprocessors;
  double bf16_teraflops;  // 0: it cannot
  double fp8_teraflops;
};

// The vendors' dense figures.
constexpr Sheet kSheets[] = {
    {"v100-sxm2-32gb", 31, 900, 80, 0, 0},
    {"a100-sxm-40gb", 39, 1555, 108, 312, 0},
    {"a100-sxm-80gb", 79, 2039, 108, 312, 0},
    {"a100-pcie-80gb", 79, 1935, 108, 312, 0},
    {"h100-sxm", 79, 3350, 132, 989, 1979},
    {"h100-pcie", 79, 2000, 114, 756, 1513},
    {"h800-sxm", 79, 3350, 132, 989, 1979},
    {"h200", 139, 4800, 132, 989, 1979},
    {"b200", 178, 8000, 148, 2250, 4500},
    {"gb200", 184, 8000, 152, 2500, 5000},
    {"b300", 267, 7700, 148, 2250, 4500},
    {"gb300", 276, 8000, 152, 2500, 5000},
    {"l40s", 44, 864, 142, 362, 733},
    {"mi300x", 191, 5300, 304, 1307, 2610},
    {"gh200", 94, 4000, 132, 989, 1979},
    {"h20", 95, 4000, 78, 148, 296},
    {"a10", 22, 600, 72, 125, 0},
    {"a10g", 22, 600, 80, 70, 0},
    {"a40", 44, 696, 84, 149.7, 0},
    {"rtx-a6000", 47, 768, 84, 154.8, 0},
    {"rtx-3090", 23, 936, 82, 71, 0},
    {"l4", 22, 300, 58, 121, 242},
    {"l40", 44, 864, 142, 181, 362},
    {"rtx-4090", 23, 1008, 128, 165.2, 330.3},
    {"rtx-5090", 31, 1792, 170, 209.5, 419},
    {"rtx-pro-6000", 94, 1792, 188, 503.8, 1007.6},
    {"gb10", 119, 273, 48, 125, 250},
    {"mi325x", 255, 6000, 304, 1307, 2610},
    {"mi355x", 287, 8000, 256, 2516, 5033},
};

TEST(FindGpu, FindsEveryShippedDataSheet) {
  for (const Sheet& sheet : kSheets) {
    Diagnostics diagnostics;
    const std::optional<topology::Gpu> gpu = FindGpu(sheet.name, "", {}, diagnostics);
    ASSERT_TRUE(gpu.has_value()) << Format(diagnostics);
    EXPECT_EQ(gpu->name, sheet.name);
    EXPECT_EQ(gpu->memory.count() >> 30, static_cast<std::int64_t>(sheet.memory_gib)) << gpu->name;
    EXPECT_EQ(gpu->memory_bandwidth,
              Bandwidth::GigabytesPerSecond(sheet.memory_bandwidth_gigabytes))
        << gpu->name;
    EXPECT_EQ(gpu->multiprocessors, sheet.multiprocessors) << gpu->name;
    const auto teraflops = [&](DataType type) {
      return static_cast<double>(gpu->PeakOf(type).flops_per_second()) * 1e-12;
    };
    EXPECT_DOUBLE_EQ(teraflops(DataType::kBf16), sheet.bf16_teraflops) << gpu->name;
    EXPECT_DOUBLE_EQ(teraflops(DataType::kFp8), sheet.fp8_teraflops) << gpu->name;
    EXPECT_GT(teraflops(DataType::kFp32), 0) << gpu->name;
    EXPECT_GT(teraflops(DataType::kFp16), teraflops(DataType::kFp32)) << gpu->name;
  }
}

TEST(FindGpu, NamesTheNearestKnownOne) {
  Diagnostics diagnostics;
  EXPECT_FALSE(FindGpu("h100-smx", "", {"t.yaml", 3, 8}, diagnostics).has_value());
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_EQ(diagnostics[0].code, "topology.unknown-gpu");
  EXPECT_EQ(diagnostics[0].location.line, 3);
  EXPECT_EQ(diagnostics[0].message, "there is no data sheet for this GPU: 'h100-smx'");
  EXPECT_EQ(diagnostics[0].hint, "did you mean 'h100-sxm'?");
  EXPECT_FALSE(FindGpu("no such thing", "", {}, diagnostics).has_value());
  EXPECT_NE(diagnostics[1].hint.find("mi300x"), std::string::npos);
}

// A generation's name is part of its forms' names, so no other generation is nearer.
TEST(FindGpu, NamesAllFormsOfAGeneration) {
  const auto hint = [](const char* name) {
    Diagnostics diagnostics;
    EXPECT_FALSE(FindGpu(name, "", {}, diagnostics).has_value());
    return diagnostics.at(0).hint.substr(0, diagnostics.at(0).hint.find('?') + 1);
  };
  EXPECT_EQ(hint("h10"), "did you mean 'h100-96gb', or 'h100-pcie', or 'h100-sxm'?");
  EXPECT_EQ(hint("h100-p"), "did you mean 'h100-pcie'?");
  EXPECT_EQ(hint("A100-80GB"), "did you mean 'a100-pcie-80gb', or 'a100-sxm-80gb'?");
  EXPECT_EQ(hint("4090"), "did you mean 'rtx-4090'?");
  EXPECT_EQ(hint("h1000"), hint("h10"));
  EXPECT_EQ(hint("no such thing"), "");
}

// A generation without a form means its SXM form; of several, the one with the most memory.
TEST(FindGpu, AGenerationIsItsSxmForm) {
  Diagnostics diagnostics;
  EXPECT_EQ(FindGpu("h100", "", {}, diagnostics)->name, "h100-sxm");
  EXPECT_EQ(FindGpu("a100", "", {}, diagnostics)->name, "a100-sxm-80gb");
  EXPECT_EQ(FindGpu("v100", "", {}, diagnostics)->name, "v100-sxm2-32gb");
  EXPECT_TRUE(diagnostics.empty());
}

TEST(FindGpu, IgnoresCapitalLettersAndTheVendor) {
  Diagnostics diagnostics;
  EXPECT_EQ(FindGpu("H100", "", {}, diagnostics)->name, "h100-sxm");
  EXPECT_EQ(FindGpu("NVIDIA H200", "", {}, diagnostics)->name, "h200");
  EXPECT_EQ(FindGpu("RTX 4090", "", {}, diagnostics)->name, "rtx-4090");
  EXPECT_EQ(FindGpu("MI300X", "", {}, diagnostics)->name, "mi300x");
  EXPECT_TRUE(diagnostics.empty());
  EXPECT_EQ(GpuNamed("H100"), "h100-sxm");
  EXPECT_EQ(GpuNamed("dgx-h100"), "");
}

TEST(FindGpu, TakesAPathButNoPathInAName) {
  Diagnostics diagnostics;
  EXPECT_TRUE(FindGpu("topologies/gpus/h200.yaml", "", {}, diagnostics).has_value());
  EXPECT_TRUE(diagnostics.empty());
  EXPECT_FALSE(FindGpu("../gpus/h200", "", {}, diagnostics).has_value());
  EXPECT_EQ(diagnostics.size(), 1u);
}

TEST(FindGpu, StatesTheCacheWhereItIsKnown) {
  Diagnostics diagnostics;
  EXPECT_EQ(FindGpu("l40s", "", {}, diagnostics)->l2_cache, Bytes(96'000'000));
  EXPECT_EQ(FindGpu("v100-sxm2-32gb", "", {}, diagnostics)->l2_cache, Bytes());
}

std::vector<std::string> Mistakes(std::string_view text) {
  Diagnostics diagnostics;
  if (const auto node = ParseDocument(text, "gpu.yaml", diagnostics)) ReadGpu(*node, diagnostics);
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics) {
    lines.push_back(fmt::format("{}:{} {}", diagnostic.location.line, diagnostic.location.column,
                                diagnostic.code));
  }
  return lines;
}

TEST(ReadGpu, ReportsAllMistakesAtOnce) {
  EXPECT_EQ(Mistakes("name: x\n"
                     "memory: 80\n"
                     "memory_bandwidth: 0 GB/s\n"
                     "multiprocessors: 0\n"
                     "peak: {bf17: 3 TFLOPS}\n"
                     "color: red\n"),
            (std::vector<std::string>{"2:9 input.bad-quantity", "3:19 input.out-of-range",
                                      "4:18 input.out-of-range", "5:8 input.unknown-key",
                                      "5:7 topology.no-peak", "6:1 input.unknown-key"}));
}

}  // namespace
}  // namespace stepcast::scenario
