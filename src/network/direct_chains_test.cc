#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "src/network/group_steps.h"
#include "src/topology/routes.h"
#include "src/topology/sample_nodes.h"

namespace stepcast::network {
namespace {

using Positions = std::vector<std::size_t>;

Positions All(std::size_t count) {
  Positions positions(count);
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  return positions;
}

std::vector<int> Gpus(int count) {
  std::vector<int> gpus(static_cast<std::size_t>(count));
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

// A DGX-1: each GPU has six NVLinks, to four of the others.
TEST(DirectChainsTest, KeepToNvLinksAndToTheirEnds) {
  const topology::NodeRoutes routes(topology::CubeMeshNode());
  const std::vector<int> gpus = Gpus(8);
  DirectChains chains(routes, gpus);
  // From a GPU of the first PCIe switch to one of the second, and so on round.
  std::vector<int> used(64);
  for (std::size_t rail = 0; rail < 4; ++rail) {
    const Positions first = {2 * rail, 2 * rail + 1};
    const Positions last = {(2 * rail + 2) % 8, (2 * rail + 3) % 8};
    const Positions chain = chains.Lay(first, last, /*both_ways=*/false);
    ASSERT_EQ(chain.size(), 8u);
    EXPECT_TRUE(std::count(first.begin(), first.end(), chain.front()) == 1);
    EXPECT_TRUE(std::count(last.begin(), last.end(), chain.back()) == 1);
    Positions sorted = chain;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, All(8));
    for (std::size_t i = 0; i + 1 < 8; ++i) {
      const auto from = static_cast<int>(chain[i]);
      const auto to = static_cast<int>(chain[i + 1]);
      EXPECT_GT(routes.DirectNvLinks(from, to), 0) << from << " to " << to;
      // Four chains find links of their own: every GPU has six.
      EXPECT_LE(++used[chain[i] * 8 + chain[i + 1]], routes.DirectNvLinks(from, to));
    }
  }
}

TEST(DirectChainsTest, ThereAreNoneThroughASwitchOrAGap) {
  const topology::NodeRoutes switched(topology::SwitchedNode());
  const std::vector<int> eight = Gpus(8);
  EXPECT_TRUE(DirectChains(switched, eight).Lay(All(8), All(8), false).empty());
  // GPUs 0 and 5 of a DGX-1 have no link of their own.
  const topology::NodeRoutes mesh(topology::CubeMeshNode());
  const std::vector<int> apart = {0, 5};
  EXPECT_TRUE(DirectChains(mesh, apart).Lay(All(2), All(2), false).empty());
  const std::vector<int> together = {0, 4};
  EXPECT_EQ(DirectChains(mesh, together).Lay(Positions{0}, Positions{1}, true), All(2));
}

}  // namespace
}  // namespace stepcast::network
