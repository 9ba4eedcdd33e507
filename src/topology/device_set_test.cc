#include "src/topology/device_set.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::topology {
namespace {

constexpr std::array<int, kNodeDeviceKinds> kDevices = {8, 4, 0, 2, 8};

TEST(ParseDeviceSet, ReadsKindsIndicesAndRanges) {
  const struct {
    const char* text;
    DeviceKind kind;
    std::vector<int> indices;
  } kCases[] = {
      {"nvswitch", DeviceKind::kNvSwitch, {0, 1, 2, 3}},
      {"gpu[3]", DeviceKind::kGpu, {3}},
      {"gpu[0..2]", DeviceKind::kGpu, {0, 1, 2}},
      {" nic[0, 4..6 ,1] ", DeviceKind::kNic, {0, 4, 5, 6, 1}},
      {"cpu[1..1]", DeviceKind::kCpu, {1}},
  };
  for (const auto& test : kCases) {
    const auto set = ParseDeviceSet(test.text, kDevices);
    ASSERT_TRUE(set.has_value()) << test.text;
    EXPECT_EQ(set->kind, test.kind) << test.text;
    EXPECT_EQ(set->indices, test.indices) << test.text;
  }
}

TEST(ParseDeviceSet, SaysWhatIsWrong) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"gpus", "there is no such kind of device in a node: 'gpus'"},
      {"leaf[0]", "there is no such kind of device in a node: 'leaf'"},
      {"", "there is no such kind of device in a node: ''"},
      {"pcie_switch", "the node has no pcie_switch: 'pcie_switch'"},
      {"gpu[8]", "there is no such device: gpu8"},
      {"gpu[6..9]", "there is no such device: gpu8"},
      {"gpu[0..999999999999]", "not an index or a range: '0..999999999999'"},
      {"gpu[0..2147483647]", "there is no such device: gpu8"},
      {"gpu[3..1]", "a range must ascend: '3..1'"},
      {"gpu[1, 1]", "a device is named twice: gpu1"},
      {"gpu[0..3, 2]", "a device is named twice: gpu2"},
      {"gpu[01]", "not an index or a range: '01'"},
      {"gpu[-1]", "not an index or a range: '-1'"},
      {"gpu[]", "not an index or a range: ''"},
      {"gpu[1,]", "not an index or a range: ''"},
      {"gpu[1", "a ']' is missing: 'gpu[1'"},
      {"gpu[1]x", "a ']' is missing: 'gpu[1]x'"},
  };
  for (const auto& test : kCases) {
    const auto set = ParseDeviceSet(test.text, kDevices);
    ASSERT_FALSE(set.has_value()) << test.text;
    EXPECT_EQ(set.error().message, test.message);
  }
}

TEST(Format, ReadsBackToTheSameSet) {
  for (const char* text : {"gpu[0..7]", "nvswitch[0, 3]", "nic[5, 0..2]", "cpu[1]"}) {
    EXPECT_EQ(Format(*ParseDeviceSet(text, kDevices)), text);
  }
}

}  // namespace
}  // namespace stepcast::topology
