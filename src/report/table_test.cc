#include "src/report/table.h"

#include "gtest/gtest.h"

namespace stepcast::report {
namespace {

TEST(TableTest, AlignsColumnsAndEndsLinesWithoutBlanks) {
  Table table({{"phase", Align::kLeft}, {"ms", Align::kRight}, {"note", Align::kLeft}});
  table.AddRow({"forward", "1.5", "a"});
  table.AddRow({"idle", "120.25", ""});
  table.AddRule();
  table.AddRow({"step", "121.75", "sum"});
  // Widths: 7, 6, 4 and two gaps of 2: 21 characters.
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

TEST(TableDeathTest, ARowOfAnotherLengthIsABug) {
  Table table({{"a", Align::kLeft}});
  EXPECT_DEATH(table.AddRow({"x", "y"}), "one cell for each column");
}

}  // namespace
}  // namespace stepcast::report
