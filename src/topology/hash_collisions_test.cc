#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/topology/cluster.h"

namespace stepcast::topology {
namespace {

// All ways in which `connections` of one leaf can choose among `uplinks`.
double ByEnumeration(int connections, int uplinks, double part) {
  const auto ways = static_cast<std::int64_t>(std::llround(std::pow(uplinks, connections)));
  double sum = 0;
  for (std::int64_t way = 0; way < ways; ++way) {
    std::vector<int> met(static_cast<std::size_t>(uplinks));
    std::int64_t rest = way;
    for (int c = 0; c < connections; ++c, rest /= uplinks) {
      ++met[static_cast<std::size_t>(rest % uplinks)];
    }
    sum += std::max(1.0, part * *std::max_element(met.begin(), met.end()));
  }
  return sum / static_cast<double>(ways);
}

double OfOneLeaf(std::int64_t connections, std::int64_t uplinks, double part) {
  const std::array leaves = {HashedLeaves{.leaves = 1, .connections = connections}};
  return ExpectedSlowdown(leaves, uplinks, part);
}

TEST(HashCollisions, OneConnectionMeetsNoOther) { EXPECT_EQ(OfOneLeaf(1, 8, 1), 1); }

TEST(HashCollisions, OneUplinkCarriesAll) { EXPECT_EQ(OfOneLeaf(6, 1, 0.5), 3); }

// Four of four: 1, 2, 3 or 4 meet in 24, 180, 48 and 4 of 256 ways: 544 / 256 = 2.125.
TEST(HashCollisions, FourOverFourUplinks) {
  EXPECT_NEAR(ByEnumeration(4, 4, 1), 2.125, 1e-12);
  EXPECT_NEAR(OfOneLeaf(4, 4, 1), 2.125, 1e-9);
}

TEST(HashCollisions, AsEnumerated) {
  for (const auto& [connections, uplinks] :
       {std::pair(2, 8), std::pair(5, 4), std::pair(6, 6), std::pair(8, 4), std::pair(3, 32)}) {
    for (const double part : {0.5, 1.0}) {
      const double exact = ByEnumeration(connections, uplinks, part);
      EXPECT_NEAR(OfOneLeaf(connections, uplinks, part), exact, 1e-9)
          << connections << " over " << uplinks;
    }
  }
}

// More leaves, more connections or wider connections never make a transfer faster. The slowdown
// lies between that of an even spread and that of all connections on one uplink.
RC_GTEST_PROP(HashCollisions, Laws, ()) {
  const std::int64_t connections = *rc::gen::inRange<std::int64_t>(1, 300);
  const std::int64_t uplinks = *rc::gen::inRange<std::int64_t>(1, 65);
  const std::int64_t count = *rc::gen::inRange<std::int64_t>(1, 500);
  const double part = *rc::gen::inRange(1, 40) / 20.0;
  const auto of = [&](std::int64_t leaves, std::int64_t of_each, double each) {
    const std::array some = {HashedLeaves{.leaves = leaves, .connections = of_each}};
    return ExpectedSlowdown(some, uplinks, each);
  };
  const double own = of(count, connections, part);
  const double even = static_cast<double>((connections + uplinks - 1) / uplinks) * part;
  RC_ASSERT(own >= std::max(1.0, even) - 1e-12);
  RC_ASSERT(own <= std::max(1.0, static_cast<double>(connections) * part) + 1e-9);
  RC_ASSERT(of(count + 1, connections, part) >= 0.98 * own);
  RC_ASSERT(of(count, connections + 1, part) >= 0.98 * own);
  RC_ASSERT(of(count, connections, part * 1.1) >= 0.98 * own);
}

}  // namespace
}  // namespace stepcast::topology
