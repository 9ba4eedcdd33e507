#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/calibration/profiles.h"

namespace stepcast::calibration {
namespace {

constexpr auto kBf16 = static_cast<std::size_t>(DataType::kBf16);

DeviceSheet Sheet() {
  DeviceSheet sheet{.memory_bandwidth = Bandwidth::GigabytesPerSecond(1000), .peak = {}};
  sheet.peak[kBf16] = FlopRate::TeraflopsPerSecond(100);
  return sheet;
}

KernelCosts Believable() {
  KernelCosts kernels;
  kernels.start_latency = Microseconds(2);
  kernels.launch = Microseconds(5);
  // 1 GB in a millisecond is the memory's own rate; data in caches may be faster.
  kernels.memory_curve = {{MiB(1), Nanoseconds(500)}, {Bytes(1'000'000'000), Milliseconds(1)}};
  // 2 x 100 x 1000 x 1000 x 500 flops.
  kernels.attention_forward_surface[kBf16] = {
      {.head_size = 500, .heads = 100, .points = {{1000, Milliseconds(1)}}}};
  return kernels;
}

std::vector<std::string> Fields(const KernelCosts& kernels, const DeviceSheet& sheet) {
  std::vector<std::string> fields;
  for (const Fault& fault : CheckOnDevice(kernels, sheet)) fields.push_back(fault.field);
  return fields;
}

using Names = std::vector<std::string>;

TEST(OnDevice, TakesWhatTheSheetAllows) { EXPECT_EQ(Fields(Believable(), Sheet()), Names{}); }

TEST(OnDevice, RefusesMoreThanMemoryAndPeakGive) {
  KernelCosts kernels = Believable();
  kernels.memory_curve.back().second -= Nanoseconds(1);
  kernels.optimizer_curve = {{GiB(1), Microseconds(10)}};
  kernels.attention_forward_surface[kBf16].back().points.back().second -= Nanoseconds(1);
  EXPECT_EQ(Fields(kernels, Sheet()), (Names{"kernels.memory_curve", "kernels.optimizer_curve",
                                             "kernels.attention_forward_surface.bf16"}));
}

TEST(OnDevice, LaunchesTakeTimeWhereAHostLaunches) {
  KernelCosts kernels = Believable();
  kernels.launch = Time();
  kernels.start_latency = Time();
  EXPECT_EQ(Fields(kernels, Sheet()), (Names{"kernels.start_latency", "kernels.launch"}));
  DeviceSheet host = Sheet();
  host.separate = false;
  EXPECT_EQ(Fields(kernels, host), Names{});
}

}  // namespace
}  // namespace stepcast::calibration
