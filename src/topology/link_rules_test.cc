#include "src/topology/link_rules.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "gtest/gtest.h"
#include "rapidcheck.h"

namespace stepcast::topology {
namespace {

LinkedPair Pcie(int gpu, int pcie_switch) {
  return {LinkKind::kPcie,
          DeviceKind::kGpu,
          gpu,
          DeviceKind::kPcieSwitch,
          pcie_switch,
          1,
          {Nanoseconds(150), Bandwidth::GigabytesPerSecond(64)}};
}
LinkedPair Direct(int a, int b, int count) {
  return {LinkKind::kNvLink,
          DeviceKind::kGpu,
          a,
          DeviceKind::kGpu,
          b,
          count,
          {Nanoseconds(250), Bandwidth::GigabytesPerSecond(25)}};
}

TEST(LinkRules, PairsDealtOutInOrderAreOneRule) {
  const auto rules = RulesOf({Pcie(0, 0), Pcie(1, 0), Pcie(2, 1), Pcie(3, 1)});
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].join, Join::kInOrder);
  EXPECT_EQ(Format(rules[0].from), "gpu[0..3]");
  EXPECT_EQ(Format(rules[0].to), "pcie_switch[0..1]");
}

TEST(LinkRules, WhatIsNotInOrderIsOneRuleForEachNeighbour) {
  const auto rules = RulesOf({Pcie(0, 0), Pcie(2, 0), Pcie(1, 1)});
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(Format(rules[0].from), "gpu[0, 2]");
  EXPECT_EQ(Format(rules[1].from), "gpu[1]");
}

TEST(LinkRules, EachWithEachNamesTheDevicesOnce) {
  const auto rules = RulesOf({Direct(0, 1, 4), Direct(0, 2, 4), Direct(1, 2, 4)});
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].join, Join::kAllToAll);
  EXPECT_EQ(rules[0].count, 4);
}

// The rules yield exactly the given pairs, with their counts, each pair once.
TEST(LinkRules, RulesHaveExactlyThePairs) {
  const bool holds = rc::check([] {
    const bool direct = *rc::gen::arbitrary<bool>();
    const auto drawn = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(0, 6), rc::gen::inRange(0, 6), rc::gen::inRange(1, 3)));
    std::vector<LinkedPair> pairs;
    std::set<std::pair<int, int>> seen;
    std::set<std::tuple<int, int, int>> expected;
    for (const auto& [a, b, count] : drawn) {
      const int from = direct ? std::min(a, b) : a;
      const int to = direct ? std::max(a, b) : b;
      if ((direct && from == to) || !seen.insert({from, to}).second) continue;
      LinkedPair pair = direct ? Direct(from, to, count) : Pcie(from, to);
      pair.count = count;
      pairs.push_back(pair);
      expected.insert({from, to, count});
    }
    std::set<std::tuple<int, int, int>> found;
    std::size_t number = 0;
    for (const LinkRule& rule : RulesOf(pairs)) {
      for (const auto& [a, b] : PairsOf(rule)) {
        found.insert({direct ? std::min(a, b) : a, direct ? std::max(a, b) : b, rule.count});
        ++number;
      }
    }
    RC_ASSERT(found == expected);
    RC_ASSERT(number == expected.size());
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace stepcast::topology
