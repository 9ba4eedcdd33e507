#include <cstddef>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "src/report/charts.h"

namespace stepcast::report {
namespace {

TEST(ParetoTest, KeepsWhatNothingBeats) {
  // (1, 5) and (3, 2) are on the front; (1, 5) dominates (2, 5), and (3, 2) dominates (3, 4) and
  // (4, 2).
  EXPECT_EQ(ParetoFront({1, 2, 3, 3, 4}, {5, 5, 4, 2, 2}),
            (std::vector<bool>{true, false, false, true, false}));
}

TEST(ParetoTest, EqualPointsStandTogether) {
  EXPECT_EQ(ParetoFront({1, 1, 2}, {1, 1, 1}), (std::vector<bool>{true, true, false}));
}

TEST(ParetoTest, NothingHasNoFront) { EXPECT_TRUE(ParetoFront({}, {}).empty()); }

RC_GTEST_PROP(ParetoTest, IsWhatTheDefinitionSays, ()) {
  // Few distinct values, so that many are equal.
  const auto points = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 6), rc::gen::inRange(0, 6)));
  std::vector<double> x, y;
  for (const auto& [first, second] : points) {
    x.push_back(first);
    y.push_back(second);
  }
  const std::vector<bool> front = ParetoFront(x, y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    bool beaten = false;
    for (std::size_t j = 0; j < x.size(); ++j) {
      beaten |= x[j] <= x[i] && y[j] <= y[i] && (x[j] < x[i] || y[j] < y[i]);
    }
    RC_ASSERT(front[i] == !beaten);
  }
}

}  // namespace
}  // namespace stepcast::report
