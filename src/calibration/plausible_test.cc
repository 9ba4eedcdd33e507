#include "src/calibration/plausible.h"

#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::calibration {
namespace {

KernelCosts GoodKernels() {
  KernelCosts kernels;
  kernels.gemm[1] = {.max_efficiency = 0.8, .half_flops = 3e9};
  kernels.attention_forward_efficiency = 0.5;
  kernels.attention_backward_efficiency = 0.4;
  kernels.memory_efficiency = 1;
  kernels.start_latency = Microseconds(2);
  kernels.launch = Microseconds(5);
  kernels.collective_launch = Microseconds(20);
  return kernels;
}

LinkCosts GoodLinks() {
  LinkCosts links;
  links.nvlink_efficiency = 0.8;
  links.pcie_efficiency = 0.75;
  links.network_efficiency = 0.92;
  links.ring_network_hop = Microseconds(14);
  return links;
}

CollectiveTable GoodTable() {
  return {.location = {},
          .collective = CollectiveKind::kAllReduce,
          .ranks = 4,
          .nodes = 4,
          .points = {{KiB(4), Microseconds(1800)}, {MiB(1), Microseconds(13100)}}};
}

std::vector<std::string> Fields(const Calibration& calibration) {
  std::vector<std::string> fields;
  for (const Fault& fault : Check(calibration)) fields.push_back(fault.field);
  return fields;
}

using Names = std::vector<std::string>;

TEST(PlausibleTest, AcceptsAProfileWithoutSections) { EXPECT_EQ(Fields({}), Names{}); }

TEST(PlausibleTest, AcceptsAWholeProfile) {
  Calibration calibration;
  calibration.kernels = GoodKernels();
  calibration.links = GoodLinks();
  calibration.memory = MemoryCosts{MiB(500), MiB(700), MiB(500), MiB(32)};
  calibration.collectives = {GoodTable()};
  EXPECT_EQ(Fields(calibration), Names{});
}

TEST(PlausibleTest, RefusesEfficienciesOutsideZeroToOne) {
  for (double value : {0.0, -0.5, 1.01, 80.0, std::numeric_limits<double>::quiet_NaN()}) {
    Calibration calibration;
    calibration.kernels = GoodKernels();
    calibration.kernels->memory_efficiency = value;
    calibration.links = GoodLinks();
    calibration.links->nvlink_efficiency = value;
    EXPECT_EQ(Fields(calibration), (Names{"kernels.memory_efficiency", "links.nvlink_efficiency"}))
        << value;
  }
}

TEST(PlausibleTest, RefusesHalfFlopsOfWholeSteps) {
  Calibration calibration;
  calibration.kernels = GoodKernels();
  calibration.kernels->gemm[1].half_flops = 1e15;
  EXPECT_EQ(Fields(calibration), Names{"kernels.gemm.bf16.half_flops"});
}

TEST(PlausibleTest, RefusesDataTypeWithHalfFlopsAlone) {
  Calibration calibration;
  calibration.kernels = GoodKernels();
  calibration.kernels->gemm[3].half_flops = 1e9;
  EXPECT_EQ(Fields(calibration), Names{"kernels.gemm.fp8.max_efficiency"});
}

TEST(PlausibleTest, RefusesTimesInAWrongUnit) {
  Calibration calibration;
  calibration.kernels = GoodKernels();
  calibration.kernels->start_latency = Milliseconds(2);
  calibration.links = GoodLinks();
  calibration.links->tree_network_hop = Seconds(14);
  EXPECT_EQ(Fields(calibration), (Names{"kernels.start_latency", "links.tree_network_hop"}));
}

TEST(PlausibleTest, RefusesMemoryOfAWholeRack) {
  Calibration calibration;
  calibration.memory = MemoryCosts{GiB(2000), Bytes(-1), MiB(500), MiB(32)};
  EXPECT_EQ(Fields(calibration), (Names{"memory.context", "memory.first_communicator"}));
}

TEST(PlausibleTest, RefusesUnsortedPoints) {
  Calibration calibration;
  calibration.collectives = {GoodTable()};
  calibration.collectives[0].points = {{MiB(1), Microseconds(10)},
                                       {KiB(4), Microseconds(10)},
                                       {MiB(1), Microseconds(10)},
                                       {MiB(2), Microseconds(20)}};
  EXPECT_EQ(Fields(calibration), (Names{"collectives[0].points[1]", "collectives[0].points[2]"}));
}

TEST(PlausibleTest, RefusesPointsThatAreNotPositive) {
  Calibration calibration;
  calibration.collectives = {GoodTable()};
  calibration.collectives[0].points = {{Bytes(0), Microseconds(1)}, {KiB(4), Time()}};
  EXPECT_EQ(Fields(calibration), (Names{"collectives[0].points[0]", "collectives[0].points[1]"}));
}

TEST(PlausibleTest, LetsMeasurementsScatterButNotCollapse) {
  Calibration calibration;
  calibration.collectives = {GoodTable()};
  // 101.9 us at 1 MiB and 101.5 us at 4 MiB were measured on 8 A100 (nccl-tests).
  calibration.collectives[0].points = {{MiB(1), Nanoseconds(101900)},
                                       {MiB(4), Nanoseconds(101500)}};
  EXPECT_EQ(Fields(calibration), Names{});
  // 79 of 100 is less than the allowed 80 %, also two points later.
  calibration.collectives[0].points = {
      {MiB(1), Microseconds(100)}, {MiB(2), Microseconds(90)}, {MiB(4), Microseconds(79)}};
  EXPECT_EQ(Fields(calibration), Names{"collectives[0].points[2]"});
}

TEST(PlausibleTest, RefusesImpossibleGroups) {
  Calibration calibration;
  calibration.collectives = {GoodTable(), GoodTable(), GoodTable()};
  calibration.collectives[0].ranks = 1;
  calibration.collectives[0].nodes = 1;
  calibration.collectives[1].nodes = 5;
  calibration.collectives[2].nodes = 0;
  calibration.collectives[2].points.clear();
  EXPECT_EQ(Fields(calibration), (Names{"collectives[0].ranks", "collectives[1].nodes",
                                        "collectives[2].nodes", "collectives[2].points"}));
}

TEST(PlausibleTest, RefusesASecondTableForOneKey) {
  Calibration calibration;
  calibration.collectives = {GoodTable(), GoodTable(), GoodTable()};
  calibration.collectives[1].collective = CollectiveKind::kBroadcast;
  EXPECT_EQ(Fields(calibration), Names{"collectives[2]"});
}

}  // namespace
}  // namespace stepcast::calibration
