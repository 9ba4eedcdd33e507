#include "src/planner/sweep_grid.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(SweepAxisTest, ValuesMayHoldBlanksAndLists) {
  const auto axis = ParseSweepAxis("data_parallel.bucket_size= 1 MiB, 25 MiB ,0 B");
  ASSERT_TRUE(axis.has_value());
  EXPECT_EQ(axis->key, "data_parallel.bucket_size");
  EXPECT_THAT(axis->values, ElementsAre("1 MiB", "25 MiB", "0 B"));

  const auto lists = ParseSweepAxis("a={x: 1, y: [2, 3]},'b, c',d");
  ASSERT_TRUE(lists.has_value());
  EXPECT_THAT(lists->values, ElementsAre("{x: 1, y: [2, 3]}", "'b, c'", "d"));
}

TEST(SweepAxisTest, ARangeStandsForItsValues) {
  const auto axis = ParseSweepAxis("data_parallel.bucket_size=0 B, 1 MiB..4 MiB x2,1..3 +1");
  ASSERT_TRUE(axis.has_value());
  EXPECT_THAT(axis->values, ElementsAre("0 B", "1 MiB", "2 MiB", "4 MiB", "1", "2", "3"));
  EXPECT_FALSE(axis->all);
  const auto path = ParseSweepAxis("model=../a.yaml,../b.yaml");
  ASSERT_TRUE(path.has_value());
  EXPECT_THAT(path->values, ElementsAre("../a.yaml", "../b.yaml"));
}

TEST(SweepAxisTest, AllStandsForEveryValueAndAlone) {
  const auto axis = ParseSweepAxis("data_parallel.framework= all ");
  ASSERT_TRUE(axis.has_value());
  EXPECT_TRUE(axis->all);
  EXPECT_THAT(axis->values, testing::IsEmpty());
  const auto quoted = ParseSweepAxis("name=\"all\"");
  ASSERT_TRUE(quoted.has_value());
  EXPECT_FALSE(quoted->all);
}

TEST(SweepAxisTest, ValuesMayHoldAnEqualsSign) {
  const auto axis = ParseSweepAxis("name=a=1,b=2");
  ASSERT_TRUE(axis.has_value());
  EXPECT_THAT(axis->values, ElementsAre("a=1", "b=2"));
}

TEST(SweepAxisTest, MistakesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the value of --vary must consist of a key and its values: ''"},
      {"training.precision",
       "the value of --vary must consist of a key and its values: "
       "'training.precision'"},
      {"=1,2", "the value of --vary must consist of a key and its values: '=1,2'"},
      {"training.precision=", "--vary has no values for 'training.precision'"},
      {"training.precision=  ", "--vary has no values for 'training.precision'"},
      {"a=1,,2", "a value of 'a' is empty: '1,,2'"},
      {"a=1,2,", "a value of 'a' is empty: '1,2,'"},
      {"a=1,2, 1", "'a' has the same value twice: '1'"},
      {"a=1..4 x2,4", "'a' has the same value twice: '4'"},
      {"a=all,1",
       "'all' selects every value of 'a', so it cannot be combined with other values: 'all,1'"},
      {"a=1,4..2 +1", "the range is empty, because the start is larger than the end: '4..2 +1'"},
  };
  for (const auto& [text, message] : cases) {
    const auto axis = ParseSweepAxis(text);
    ASSERT_FALSE(axis.has_value()) << text;
    ASSERT_EQ(axis.error().size(), 1U);
    EXPECT_EQ(axis.error()[0].message, message);
    EXPECT_EQ(axis.error()[0].location.file, "--vary " + text);
    EXPECT_FALSE(axis.error()[0].hint.empty());
  }
}

TEST(SweepGridTest, TheFirstKeyVariesSlowest) {
  const auto grid = SweepGrid::Of({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}});
  ASSERT_TRUE(grid.has_value());
  ASSERT_EQ(grid->rows(), 6);
  EXPECT_THAT(grid->Row(0), ElementsAre(Pair("a", "1"), Pair("b", "x")));
  EXPECT_THAT(grid->Row(1), ElementsAre(Pair("a", "1"), Pair("b", "y")));
  EXPECT_THAT(grid->Row(2), ElementsAre(Pair("a", "1"), Pair("b", "z")));
  EXPECT_THAT(grid->Row(3), ElementsAre(Pair("a", "2"), Pair("b", "x")));
  EXPECT_THAT(grid->Row(5), ElementsAre(Pair("a", "2"), Pair("b", "z")));
}

TEST(SweepGridTest, MistakesAreNamed) {
  EXPECT_THAT(SweepGrid::Of({}).error()[0].message,
              HasSubstr("the command needs at least one --vary"));
  EXPECT_THAT(SweepGrid::Of({{"a", {"1"}}, {"b", {"1"}}, {"a", {"2"}}}).error()[0].message,
              HasSubstr("two --vary options have the same key: 'a'"));
}

TEST(SweepGridTest, AMillionCombinationsAreTheMost) {
  const std::vector<std::string> thousand = [] {
    std::vector<std::string> values;
    for (int i = 0; i < 1000; ++i) values.push_back(std::to_string(i));
    return values;
  }();
  const auto most = SweepGrid::Of({{"a", thousand}, {"b", thousand}});
  ASSERT_TRUE(most.has_value());
  EXPECT_EQ(most->rows(), 1'000'000);
  EXPECT_EQ(most->Value(999'999, 0), "999");
  const auto over = SweepGrid::Of({{"a", thousand}, {"b", thousand}, {"c", {"1", "2"}}});
  ASSERT_FALSE(over.has_value());
  EXPECT_EQ(over.error()[0].code, "sweep.too-many");
  EXPECT_EQ(over.error()[0].message,
            "the sweep has 2000000 combinations, but one sweep can have at most 1000000 "
            "combinations (1000 x 1000 x 2)");
  EXPECT_THAT(over.error()[0].hint, HasSubstr("'a', which has 1000 values"));
  // Twenty thousand-value axes would overflow a product in 64 bits.
  std::vector<SweepAxis> axes;
  for (int i = 0; i < 20; ++i) axes.push_back({"k" + std::to_string(i), thousand});
  const auto far_over = SweepGrid::Of(axes);
  ASSERT_FALSE(far_over.has_value());
  EXPECT_THAT(far_over.error()[0].message, HasSubstr("more than 1000000000000000 combinations"));
}

// A row's number is its values' indices in the mixed radix of the axes' lengths.
RC_GTEST_PROP(SweepGridLaws, EveryCombinationIsOneRow, ()) {
  const auto lengths = *rc::gen::container<std::vector<int>>(4, rc::gen::inRange<int>(1, 6));
  std::vector<SweepAxis> axes;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    SweepAxis axis{"k" + std::to_string(i), {}};
    for (int v = 0; v < lengths[i]; ++v) axis.values.push_back(std::to_string(v));
    axes.push_back(std::move(axis));
  }
  const auto grid = SweepGrid::Of(axes);
  RC_ASSERT(grid.has_value());
  RC_ASSERT(grid->rows() == lengths[0] * lengths[1] * lengths[2] * lengths[3]);
  for (std::int64_t row = 0; row < grid->rows(); ++row) {
    std::int64_t number = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      number = number * lengths[i] + std::stoll(grid->Row(row)[i].second);
    }
    RC_ASSERT(number == row);
  }
}

TEST(SweepGridTest, RowsThatHaveMostInCommonStandTogether) {
  const auto grid = SweepGrid::Of({{"cluster.nodes", {"1", "2"}},
                                   {"training.gradient_accumulation", {"1", "2", "4"}},
                                   {"training.micro_batch_size", {"1", "8"}}});
  ASSERT_TRUE(grid.has_value());
  // Rows of one number of nodes are 6 apart from those of the other.
  const std::vector<std::int64_t> expected = {0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11};
  std::vector<std::int64_t> rows;
  for (std::int64_t place = 0; place < grid->rows(); ++place) rows.push_back(grid->RowAt(place));
  EXPECT_EQ(rows, expected);
}

}  // namespace
}  // namespace stepcast::planner
