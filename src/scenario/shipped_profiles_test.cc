// Common requirements of the shipped data sheets and calibration profiles.

#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/data_type.h"
#include "src/calibration/calibration.h"
#include "src/calibration/profiles.h"
#include "src/scenario/calibration_file.h"
#include "src/scenario/data_root.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/source_names.h"
#include "src/topology/device.h"

namespace stepcast::scenario {
namespace {

constexpr const char* kGpus[] = {
    "v100-sxm2-32gb", "a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-80gb", "h100-sxm",
    "h100-pcie",      "h800-sxm",      "h200",          "b200",           "gb200",
    "b300",           "gb300",         "l40s",          "mi300x"};

// Profiles of architectures, which stand in for unmeasured GPUs, and one of these GPUs.
constexpr std::pair<const char*, const char*> kArchitectures[] = {
    {"sm_86", "rtx-a6000"}, {"sm_120", "rtx-5090"}, {"gfx950", "mi355x"}};

std::string PathOf(const std::string& folder, const std::string& name) {
  return FindInput(folder + name + ".yaml", "").value_or("");
}

// A profile has figures for matrix products of exactly the types whose peak the data sheet states.
TEST(ShippedProfiles, CoverWhatTheDeviceComputesIn) {
  for (const std::string name : kGpus) {
    const auto gpu = LoadGpu(PathOf("topologies/gpus/", name));
    const auto profile = LoadCalibration(PathOf("calibration/", name));
    ASSERT_TRUE(gpu.has_value() && profile.has_value()) << name;
    EXPECT_FALSE(profile->provenance.empty()) << name;
    EXPECT_TRUE(!profile->gpus.empty() && profile->MayHoldFor(name)) << name;
    ASSERT_TRUE(profile->kernels.has_value()) << name;
    for (const DataType type : kDataTypes) {
      const auto at = static_cast<std::size_t>(type);
      const bool known = !profile->kernels->gemm_tiling[at].empty() ||
                         profile->kernels->gemm[at].max_efficiency > 0;
      EXPECT_EQ(known, gpu->PeakOf(type) > FlopRate()) << name << " " << Name(type);
    }
  }
}

// For data sheets without a profile of their own, another profile stands in.
TEST(ShippedProfiles, StandInForEveryGpu) {
  for (const std::string& name : NamesIn("topologies/gpus")) {
    const auto gpu = LoadGpu(PathOf("topologies/gpus/", name));
    ASSERT_TRUE(gpu.has_value()) << name;
    if (FindInput("calibration/" + name + ".yaml", "").has_value()) continue;
    const auto stand_in = calibration::StandInOf(gpu->name, gpu->compute_capability);
    ASSERT_TRUE(stand_in.has_value()) << name;
    const auto profile = LoadCalibration(PathOf("calibration/", std::string(stand_in->profile)));
    ASSERT_TRUE(profile.has_value()) << name;
    EXPECT_EQ(profile->name, stand_in->profile);
  }
}

// Those profiles cover the types that their GPUs compute in.
TEST(ShippedProfiles, OfArchitecturesCoverTheirGpus) {
  for (const auto& [name, of] : kArchitectures) {
    const auto gpu = LoadGpu(PathOf("topologies/gpus/", of));
    const auto profile = LoadCalibration(PathOf("calibration/", name));
    ASSERT_TRUE(gpu.has_value() && profile.has_value()) << name;
    EXPECT_TRUE(profile->gpus.empty()) << name;
    for (const DataType type : kDataTypes) {
      const bool known = profile->kernels->gemm[static_cast<std::size_t>(type)].max_efficiency > 0;
      EXPECT_EQ(known, gpu->PeakOf(type) > FlopRate()) << name << " " << Name(type);
    }
  }
}

// General forecast errors do not depend on the GPU type: all profiles state the same ones.
TEST(ShippedProfiles, SayHowWellStepsAndPeaksAreForecast) {
  std::map<std::string, double> general;
  std::vector<std::string> names(std::begin(kGpus), std::end(kGpus));
  for (const auto& [name, of] : kArchitectures) names.emplace_back(name);
  for (const std::string& name : names) {
    const auto profile = LoadCalibration(PathOf("calibration/", name));
    ASSERT_TRUE(profile.has_value()) << name;
    std::map<std::string, double> own;
    for (const calibration::Residual& residual : profile->residuals) {
      if (residual.of == "source" || residual.of == "memory") {
        own[residual.of] = residual.interpolation;
      }
    }
    EXPECT_EQ(own.size(), 2u) << name;
    if (general.empty()) general = own;
    EXPECT_EQ(own, general) << name;
  }
}

// Tensor cores of all these GPUs double their rate when bits are halved, up to rounding: FP8, 16
// bits, TF32.
TEST(ShippedProfiles, TensorCoresTakeHalfTheBitsTwiceAsFast) {
  for (const std::string name : kGpus) {
    const auto gpu = LoadGpu(PathOf("topologies/gpus/", name));
    ASSERT_TRUE(gpu.has_value()) << name;
    const auto rate = [&](DataType type) {
      return static_cast<double>(gpu->PeakOf(type).flops_per_second());
    };
    for (const auto& [narrow, wide] : {std::pair(DataType::kFp8, DataType::kBf16),
                                       std::pair(DataType::kBf16, DataType::kTf32)}) {
      if (rate(narrow) == 0 || rate(wide) == 0) continue;
      EXPECT_NEAR(rate(narrow) / rate(wide), 2, 0.03) << name << " " << Name(narrow);
    }
    if (rate(DataType::kTf32) > 0) {
      EXPECT_GE(rate(DataType::kTf32), rate(DataType::kFp32)) << name;
    }
  }
}

}  // namespace
}  // namespace stepcast::scenario
