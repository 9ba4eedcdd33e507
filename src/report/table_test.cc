#include "src/report/table.h"

#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::report {
namespace {

TEST(TableTest, AlignsColumnsAndEndsLinesWithoutBlanks) {
  Table table({{"phase", Align::kLeft}, {"ms", Align::kRight}, {"note", Align::kLeft}});
  table.AddRow({"forward", "1.5", "a"});
  table.AddRow({"idle", "120.25", ""});
  table.AddRule();
  table.AddRow({"step", "121.75", "sum"});
  // Widths 7, 6 and 4 and two gaps of 2 make 21 characters.
  EXPECT_EQ(table.ToString(),
            "phase        ms  note\n"
            "---------------------\n"
            "forward     1.5  a\n"
            "idle     120.25\n"
            "---------------------\n"
            "step     121.75  sum\n");
}

TEST(TableTest, WidthCountsCharactersNotBytes) {
  Table table({{"name", Align::kLeft}, {"n", Align::kRight}});
  table.AddRow({"Träff", "1"});  // five characters in six bytes
  table.AddRow({"Speck", "2"});
  EXPECT_EQ(table.ToString(),
            "name   n\n"
            "--------\n"
            "Träff  1\n"
            "Speck  2\n");
}

TEST(TableTest, WithoutRowsOnlyTheHeading) {
  EXPECT_EQ(Table({{"a", Align::kLeft}}).ToString(), "a\n-\n");
}

// 22 characters do not fit into 16; with the heading in two lines, 13 suffice.
TEST(TableTest, HeadingsStandInSeveralLines) {
  Table table({{"stage"}, {"exposed in all"}});
  table.AddRow({"0", "12.5"});
  EXPECT_EQ(table.ToString(16),
            "       exposed\n"
            "stage   in all\n"
            "--------------\n"
            "    0     12.5\n");
}

TEST(TableTest, WhatAllRowsHaveIsSaidOnce) {
  Table table({{"plan", Align::kLeft}, {"framework", Align::kLeft}, {"ms"}});
  table.AddRow({"a", "megatron", "1"});
  table.AddRow({"b", "megatron", "2"});
  EXPECT_EQ(table.ToString(18),
            "all rows:\n"
            "framework megatron\n"
            "plan  ms\n"
            "--------\n"
            "a      1\n"
            "b      2\n");
}

TEST(TableTest, TextIsBrokenAtBlanks) {
  Table table({{"ms"}, {"why", Align::kLeft}});
  table.AddRow({"1", "communication that nothing hides"});
  EXPECT_EQ(table.ToString(24),
            "ms  why\n"
            "------------------------\n"
            " 1  communication that\n"
            "    nothing hides\n");
}

// 18 of 22 characters hold two columns of seven beside the key.
TEST(TableTest, ColumnsWithoutAPlaceAreLeftOut) {
  Table table({{"key", Align::kLeft}, {"first"}, {"second", Align::kRight, true}, {"third"}});
  table.AddRow({"a", "1000000", "2000000", "3000000"});
  table.AddRow({"b", "1000001", "2000001", "3000001"});
  EXPECT_EQ(table.ToString(22),
            "key    first    third\n"
            "---------------------\n"
            "a    1000000  3000000\n"
            "b    1000001  3000001\n"
            "columns not shown:\n"
            "second (--columns\n"
            "shows all)\n");
  EXPECT_EQ(table.ToString(14),
            "key    first\n"
            "------------\n"
            "a    1000000\n"
            "b    1000001\n"
            "columns not\n"
            "shown: second,\n"
            "third\n"
            "(--columns\n"
            "shows all)\n");
}

// Figures of up to six characters in tables of up to 12 columns fit into 40 characters.
RC_GTEST_PROP(TableTest, NoLineIsWiderThanItMayBe, ()) {
  const auto columns = *rc::gen::inRange(1, 12);
  const auto rows = *rc::gen::inRange(0, 5);
  const auto word = [](int most) {
    return rc::gen::resize(
        most, rc::gen::container<std::string>(rc::gen::element('a', 'b', '.', '_', ' ', '7')));
  };
  std::vector<Column> heads;
  for (int i = 0; i < columns; ++i) {
    heads.push_back({*word(20), *rc::gen::element(Align::kLeft, Align::kRight)});
  }
  Table table(heads);
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string> cells;
    for (const Column& head : heads) {
      std::string cell = *word(head.align == Align::kLeft ? 60 : 6);
      if (head.align == Align::kRight) cell = cell.substr(0, 6);
      cells.push_back(std::move(cell));
    }
    table.AddRow(std::move(cells));
  }
  constexpr std::size_t kWidth = 40;
  std::istringstream lines(table.ToString(kWidth));
  for (std::string line; std::getline(lines, line);) {
    RC_ASSERT(WidthOf(line) <= kWidth);
    RC_ASSERT(!line.ends_with(' '));
  }
}

TEST(TableDeathTest, ARowOfAnotherLengthIsABug) {
  Table table({{"a", Align::kLeft}});
  EXPECT_DEATH(table.AddRow({"x", "y"}), "one cell for each column");
}

}  // namespace
}  // namespace stepcast::report
