#include "src/report/csv.h"

#include "gtest/gtest.h"

namespace stepcast::report {
namespace {

TEST(CsvTest, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(CsvRecord({"a", "", "25 MiB"}), "a,,25 MiB\r\n");
  EXPECT_EQ(CsvRecord({"a,b", "say \"yes\"", "two\nlines"}),
            "\"a,b\",\"say \"\"yes\"\"\",\"two\nlines\"\r\n");
}

}  // namespace
}  // namespace stepcast::report
