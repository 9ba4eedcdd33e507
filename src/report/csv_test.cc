#include "gtest/gtest.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

TEST(CsvTest, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(CsvRecord({"a", "", "25 MiB"}), "a,,25 MiB\r\n");
  EXPECT_EQ(CsvRecord({"a,b", "say \"yes\"", "two\nlines"}),
            "\"a,b\",\"say \"\"yes\"\"\",\"two\nlines\"\r\n");
}

TEST(CsvTest, FormulasAreText) {
  EXPECT_EQ(CsvRecord({"=1+1", "@SUM(A1)", "-cmd", "+a", "\tb"}),
            "\"'=1+1\",\"'@SUM(A1)\",\"'-cmd\",\"'+a\",\"'\tb\"\r\n");
  EXPECT_EQ(CsvRecord({"-1.5", "-2e-3", "a=b", "25%"}), "-1.5,-2e-3,a=b,25%\r\n");
}

}  // namespace
}  // namespace stepcast::report
