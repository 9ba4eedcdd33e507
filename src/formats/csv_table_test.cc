#include "src/formats/csv_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/printable.h"

namespace stepcast::formats {
namespace {

using testing::ElementsAre;

std::vector<std::string> Texts(const std::vector<CsvCell>& cells) {
  std::vector<std::string> texts;
  for (const CsvCell& cell : cells) texts.push_back(cell.text);
  return texts;
}

std::vector<std::string> Faults(std::string_view text) {
  const auto table = ParseCsv(text, "t.csv");
  std::vector<std::string> faults;
  if (table) return faults;
  for (const Diagnostic& fault : table.error()) {
    faults.push_back(fault.code + " " + std::to_string(fault.location.line) + ":" +
                     std::to_string(fault.location.column));
  }
  return faults;
}

TEST(CsvTable, FieldsAndWhereTheyStand) {
  const auto table = ParseCsv(
      "\xEF\xBB\xBF# a log\r\nname, step_time\r\n\r\na, 1.5 s "
      "\r\n\"b, c\",\"2\"\"\"",
      "t.csv");
  ASSERT_TRUE(table.has_value()) << Format(table.error());
  EXPECT_THAT(Texts(table->headings), ElementsAre("name", "step_time"));
  ASSERT_EQ(table->rows.size(), 2U);
  EXPECT_THAT(Texts(table->rows[0]), ElementsAre("a", "1.5 s"));
  EXPECT_EQ(table->rows[0][1].location.line, 4);
  EXPECT_EQ(table->rows[0][1].location.column, 4);
  EXPECT_THAT(Texts(table->rows[1]), ElementsAre("b, c", "2\""));
  EXPECT_EQ(table->rows[1][1].location.column, 8);
}

TEST(CsvTable, AQuotedFieldMayHoldLineEnds) {
  const auto table = ParseCsv("a,b\n\"1\n2\",3\n4,5\n", "t.csv");
  ASSERT_TRUE(table.has_value()) << Format(table.error());
  EXPECT_THAT(Texts(table->rows[0]), ElementsAre("1\n2", "3"));
  EXPECT_EQ(table->rows[1][0].location.line, 4);
}

TEST(CsvTable, MistakesAreReportedAllAtOnce) {
  EXPECT_THAT(Faults("a,a,\n1,2,3\n1,2\n\"1\"x,2,3\n"),
              ElementsAre("csv.heading 1:3", "csv.heading 1:5", "csv.fields 3:1", "csv.quote 4:4"));
  EXPECT_THAT(Faults("a\n\"1"), ElementsAre("csv.quote 2:1"));
  EXPECT_THAT(Faults("# nothing\n"), ElementsAre("csv.heading 0:0"));
}

// Files that would need gigabytes are not read to their end.
TEST(CsvTable, IsBounded) {
  std::string columns = "a0";
  for (std::size_t i = 1; i <= kMostCsvColumns; ++i) columns += ",a" + std::to_string(i);
  EXPECT_THAT(Faults(columns + "\n"), ElementsAre("file.too-large 1:391"));
  EXPECT_THAT(Faults(columns.substr(0, columns.rfind(',')) + "\n"), ElementsAre());
  std::string rows = "a,b\n";
  for (std::size_t i = 2; i < kMostCsvTableFields; i += 2) rows += "1,2\n";
  EXPECT_THAT(Faults(rows), ElementsAre());
  EXPECT_THAT(Faults(rows + "3,4\n"), ElementsAre("file.too-large 100001:1"));
  std::string wrong = "a,b\n";
  for (int i = 0; i < 1000; ++i) wrong += "1\n";
  EXPECT_EQ(Faults(wrong).size(), kMostShownFaults);
}

// Text written by the rules is read back.
RC_GTEST_PROP(CsvTable, ReadsWhatTheRulesWrite, ()) {
  const auto width = *rc::gen::inRange<std::size_t>(1, 5);
  const auto cells = *rc::gen::container<std::vector<std::string>>(
      width * 3, rc::gen::container<std::string>(rc::gen::element('a', ' ', ',', '"', '\n', '#')));
  std::string text;
  for (std::size_t i = 0; i < width; ++i) text += (i == 0 ? "" : ",") + std::string(i + 1, 'h');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += i % width == 0 ? '\n' : ',';
    text += '"';
    for (const char c : cells[i]) text += c == '"' ? std::string("\"\"") : std::string(1, c);
    text += '"';
  }
  const auto table = ParseCsv(text, "t.csv");
  RC_ASSERT(table.has_value());
  RC_ASSERT(table->rows.size() == 3U);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    RC_ASSERT(table->rows[i / width][i % width].text == cells[i]);
  }
}

}  // namespace
}  // namespace stepcast::formats
