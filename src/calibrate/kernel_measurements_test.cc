#include "src/calibrate/kernel_measurements.h"

#include "gtest/gtest.h"

namespace stepcast::calibrate {
namespace {

// Each shape as "ranks/nodes: group group".
std::vector<std::string> Shapes(const std::vector<int>& node_of_rank) {
  std::vector<std::string> texts;
  for (const GroupShape& shape : ShapesOf(node_of_rank)) {
    std::string text = std::to_string(shape.ranks) + "/" + std::to_string(shape.nodes) + ":";
    for (const std::vector<int>& group : shape.groups) {
      text += ' ';
      for (const int rank : group) text += std::to_string(rank);
    }
    texts.push_back(text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST(GroupsTest, OneRankHasNobody) { EXPECT_EQ(Shapes({0}), Texts()); }

TEST(GroupsTest, FourNodesOfOneRank) {
  EXPECT_EQ(Shapes({0, 1, 2, 3}), (Texts{"4/4: 0123", "2/2: 01 23"}));
}

TEST(GroupsTest, TwoNodesOfTwoRanks) {
  EXPECT_EQ(Shapes({0, 0, 1, 1}), (Texts{"4/2: 0123", "2/1: 01 23", "2/2: 02 13"}));
}

TEST(GroupsTest, OneNodeOfFour) {
  EXPECT_EQ(Shapes({0, 0, 0, 0}), (Texts{"4/1: 0123", "2/1: 01 23"}));
}

// Nodes of different sizes have no common shape, nor do groups that span one or two nodes.
TEST(GroupsTest, UnevenNodes) { EXPECT_EQ(Shapes({0, 0, 0, 1}), (Texts{"4/2: 0123"})); }

}  // namespace
}  // namespace stepcast::calibrate
