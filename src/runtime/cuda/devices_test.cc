#include "src/runtime/cuda/devices.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <string_view>

namespace stepcast::runtime::cuda {
namespace {

// This file is also built as a second test, in whose environment no GPU is visible.
bool GpusAreHidden() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && std::string_view(visible).empty();
}

// With an older NCCL at run time than at compile time, a program fails in ways that are hard to
// diagnose. A newer NCCL of the same major version works.
TEST(ListDevices, FindsAnNcclThatServesIt) {
  const Version found = ListDevices().nccl;
  EXPECT_EQ(found.major, NCCL_MAJOR);
  EXPECT_GE(found.minor, NCCL_MINOR);
}

TEST(ListDevices, ReportsTheRuntimeThatIsLinkedIn) {
  EXPECT_EQ(ListDevices().runtime, (Version{CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, 0}));
}

TEST(ListDevices, GivesDevicesOrTheReasonWhyThereAreNone) {
  const Inventory inventory = ListDevices();
  EXPECT_EQ(inventory.devices.empty(), !inventory.no_devices_because.empty())
      << inventory.no_devices_because;
}

TEST(ListDevices, WithoutAVisibleGpuTheListIsEmpty) {
  if (!GpusAreHidden()) GTEST_SKIP() << "this machine's GPUs are visible to this test";
  const Inventory inventory = ListDevices();
  EXPECT_TRUE(inventory.devices.empty());
  EXPECT_NE(inventory.no_devices_because, "");
}

TEST(ListDevices, DescribesEveryVisibleGpu) {
  const Inventory inventory = ListDevices();
  if (inventory.devices.empty()) GTEST_SKIP() << inventory.no_devices_because;
  EXPECT_NE(inventory.driver, Version{});
  int ordinal = 0;
  for (const Device& device : inventory.devices) {
    EXPECT_EQ(device.ordinal, ordinal++);
    EXPECT_NE(device.name, "");
    EXPECT_GE(device.compute_capability_major, 5);
    EXPECT_GT(device.multiprocessors, 0);
    EXPECT_GT(device.memory, GiB(1));
    EXPECT_GT(device.cache, Bytes());
    EXPECT_LT(device.cache, GiB(1));
    // A range that includes all data-center GPUs from the A100 (1.5 TB/s) to the B200 (8 TB/s).
    EXPECT_GT(device.memory_bandwidth, Bandwidth::GigabytesPerSecond(100));
    EXPECT_LT(device.memory_bandwidth, Bandwidth::GigabytesPerSecond(20'000));
  }
}

}  // namespace
}  // namespace stepcast::runtime::cuda
