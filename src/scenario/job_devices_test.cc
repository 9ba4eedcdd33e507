#include "src/scenario/job_devices.h"

#include <string>

#include "gtest/gtest.h"

namespace stepcast::scenario {
namespace {

constexpr NodesOfGpus kTwoOfEight{2, 8};

std::string CodeOf(std::int64_t devices, const NodesOfGpus& topology, std::int64_t tensor = 1) {
  const auto placed = PlaceJob(devices, topology, tensor);
  return placed ? "" : placed.error().code;
}

TEST(JobDevicesTest, HasTheFewestNodesAndEquallyManyGpusOfEach) {
  EXPECT_EQ(PlaceJob(1, kTwoOfEight, 1), (NodesOfGpus{1, 1}));
  EXPECT_EQ(PlaceJob(4, kTwoOfEight, 1), (NodesOfGpus{1, 4}));
  EXPECT_EQ(PlaceJob(7, kTwoOfEight, 1), (NodesOfGpus{1, 7}));
  EXPECT_EQ(PlaceJob(8, kTwoOfEight, 1), (NodesOfGpus{1, 8}));
  EXPECT_EQ(PlaceJob(12, kTwoOfEight, 1), (NodesOfGpus{2, 6}));
  EXPECT_EQ(PlaceJob(16, kTwoOfEight, 1), (NodesOfGpus{2, 8}));
  EXPECT_EQ(PlaceJob(64, {4, 72}, 1), (NodesOfGpus{1, 64}));
  EXPECT_EQ(PlaceJob(128, {4, 72}, 1), (NodesOfGpus{2, 64}));
}

TEST(JobDevicesTest, RefusesNodesThatWouldDiffer) {
  const auto placed = PlaceJob(13, kTwoOfEight, 1);
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, "scenario.unequal-nodes");
  EXPECT_EQ(placed.error().message,
            "a job must use the same number of GPUs on each node, but 13 GPUs cannot be divided "
            "equally among 2 nodes of 8 GPUs");
  EXPECT_EQ(placed.error().hint, "set cluster.devices to 12 or 14");
}

TEST(JobDevicesTest, RefusesMoreThanThereAre) {
  EXPECT_EQ(CodeOf(17, kTwoOfEight), "scenario.too-many-devices");
  EXPECT_EQ(CodeOf(9, {1, 8}), "scenario.too-many-devices");
}

// Twelve are six of each of two nodes: ranks 4 to 7 would be in both.
TEST(JobDevicesTest, RefusesGroupsOfTensorRanksThatAPartOfANodeWouldSplit) {
  const auto placed = PlaceJob(12, kTwoOfEight, 4);
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, "scenario.split-tensor-group");
  EXPECT_EQ(placed.error().hint, "use 8 or 16 GPUs, or a tensor degree that divides 6");
  EXPECT_EQ(CodeOf(12, kTwoOfEight, 3), "");
  EXPECT_EQ(CodeOf(12, kTwoOfEight, 2), "");
  EXPECT_EQ(CodeOf(6, kTwoOfEight, 4), "") << "in one node nothing is split";
  EXPECT_EQ(CodeOf(16, kTwoOfEight, 3), "") << "whole nodes are as without the key";
}

TEST(JobDevicesTest, ThePlanHasAsManyAsItsAxesMultiplyTo) {
  plan::Request request;
  request.tensor = 2;
  request.data = 3;
  EXPECT_EQ(DevicesOfJob({}, request, 16), 6);
  request.data.reset();
  EXPECT_EQ(DevicesOfJob({}, request, 16), 16);
  request.tensor = 3;
  EXPECT_EQ(DevicesOfJob({}, request, 8), 6) << "as many copies as there can be";
  request.data = 4;
  EXPECT_EQ(DevicesOfJob({}, request, 8), 8) << "too many: the plan's rules say so";
  EXPECT_EQ(DevicesOfJob({.count = 5}, request, 8), 5);
}

}  // namespace
}  // namespace stepcast::scenario
