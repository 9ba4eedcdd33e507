#include "src/lowering/formulas.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/lowering/shard.h"

namespace stepcast::lowering {
namespace {

// Plain numbers are amounts that nothing varies.
TEST(Amount, CountsAsNumbersDo) {
  const Amount seven = 7;
  EXPECT_EQ((seven + 3).value(), 10);
  EXPECT_EQ((seven - 9).value(), -2);
  EXPECT_EQ((seven * seven).value(), 49);
  EXPECT_EQ((seven / 2).value(), 3);
  EXPECT_EQ(Proportion(seven, 3, 2).value(), 11);  // 10.5, rounded up
  // 2^40 x 2^40 does not fit in 64 bits; the quotient 2^20 does.
  EXPECT_EQ(Proportion(std::int64_t{1} << 40, std::int64_t{1} << 40, std::int64_t{1} << 60).value(),
            std::int64_t{1} << 20);
  EXPECT_FALSE((seven * 2).varies());
  EXPECT_TRUE(seven.positive());
  EXPECT_FALSE(Amount(0).positive());
}

// A whole of 1,000 elements over 8 ranks: 125 each, 2 bytes an element. Over 7: 143 each, together
// 1,001.
TEST(Formulas, FollowTheNumberOfRanks) {
  Formulas formulas;
  const BasicShard<Amount> shard(1000, formulas.Ranks(8));
  const Amount length = shard.length() * 2;
  const Amount padding = shard.PaddingOfWhole(2);
  EXPECT_EQ(length.value(), 250);
  EXPECT_EQ(padding.value(), 0);
  ASSERT_TRUE(length.varies());
  ASSERT_TRUE(padding.varies());
  ASSERT_TRUE(formulas.Evaluate(7));
  EXPECT_EQ(formulas.value(length.formula()), 286);
  EXPECT_EQ(formulas.value(padding.formula()), 2);
}

TEST(Formulas, AreTheSameForTheSameArithmetic) {
  Formulas formulas;
  const Amount ranks = formulas.Ranks(8);
  EXPECT_TRUE(Same(ranks * 3 + 1, ranks * 3 + 1));
  EXPECT_FALSE(Same(ranks * 3, Amount(24)));  // with 8 ranks only
  EXPECT_FALSE(Same(ranks * 3, ranks + 16));
}

TEST(Formulas, HoldAsLongAsTheSameIsPositive) {
  Formulas formulas;
  const Amount ranks = formulas.Ranks(8);
  EXPECT_TRUE((ranks - 4).positive());
  EXPECT_FALSE((Amount(16) / ranks - 2).positive());
  EXPECT_TRUE(formulas.Evaluate(8));
  EXPECT_TRUE(formulas.Evaluate(6));   // 2 > 0; 2 - 2 is not
  EXPECT_FALSE(formulas.Evaluate(4));  // 0
  EXPECT_FALSE(formulas.Evaluate(5));  // 1 > 0, but 3 - 2 is, too
}

// Whatever is worked out with the number of ranks: its formula gives for another number what the
// same arithmetic gives there. Enough steps to outgrow the table.
RC_GTEST_PROP(Formulas, GiveWhatTheArithmeticGives, ()) {
  struct Step {
    int operation, a, b;
    std::int64_t constant;
  };
  const auto steps = *rc::gen::container<std::vector<Step>>(
      rc::gen::construct<Step>(rc::gen::inRange(0, 5), rc::gen::inRange(0, 1000),
                               rc::gen::inRange(0, 1000), rc::gen::inRange<std::int64_t>(1, 1000)));
  const auto run = [&](const Amount& ranks) {
    std::vector<Amount> amounts = {ranks};
    for (const Step& step : steps) {
      const auto count = static_cast<int>(amounts.size());
      // Kept small, so that products stay in range.
      const Amount a = amounts[step.a % count] / 1000;
      const Amount b = amounts[step.b % count] / 1000 + step.constant;
      switch (step.operation) {
        case 0:
          amounts.push_back(a + b);
          break;
        case 1:
          amounts.push_back(a - b);
          break;
        case 2:
          amounts.push_back(a / 1000 * (b / 1000));
          break;
        case 3:
          amounts.push_back(a / step.constant + ranks * step.constant);
          break;
        default:
          amounts.push_back(Proportion(b, step.constant, 7));
          break;
      }
    }
    return amounts;
  };
  Formulas formulas;
  const std::int64_t before = *rc::gen::inRange(1, 2000), after = *rc::gen::inRange(1, 2000);
  const std::vector<Amount> written = run(formulas.Ranks(before));
  const std::vector<Amount> expected = run(after);
  RC_ASSERT(formulas.Evaluate(after));
  for (std::size_t i = 0; i < written.size(); ++i) {
    const std::int64_t value =
        written[i].varies() ? formulas.value(written[i].formula()) : written[i].value();
    RC_ASSERT(value == expected[i].value());
  }
}

}  // namespace
}  // namespace stepcast::lowering
