#include "gtest/gtest.h"
#include "src/base/text_lines.h"

namespace stepcast {
namespace {

TEST(YamlScalar, IsPlainWhereYamlTakesItForItself) {
  for (const char* text : {"bf16", "llama3.1-8b", "configs/a b.json", "./a", "1e-3", "true"}) {
    EXPECT_EQ(YamlScalar(text), text);
  }
}

TEST(YamlScalar, QuotesWhatYamlWouldTakeForSomethingElse) {
  EXPECT_EQ(YamlScalar(""), "\"\"");
  EXPECT_EQ(YamlScalar("null"), "\"null\"");
  EXPECT_EQ(YamlScalar("~"), "\"~\"");
  EXPECT_EQ(YamlScalar("- a"), "\"- a\"");
  EXPECT_EQ(YamlScalar(" a"), "\" a\"");
  EXPECT_EQ(YamlScalar("a: b"), "\"a: b\"");
  EXPECT_EQ(YamlScalar("a #b"), "\"a #b\"");
  EXPECT_EQ(YamlScalar("[a, b]"), "\"[a, b]\"");
  EXPECT_EQ(YamlScalar("gr\xC3\xB6\xC3\x9F"
                       "er"),
            "\"gr\xC3\xB6\xC3\x9F"
            "er\"");
}

TEST(YamlQuoted, StaysOnOneLine) {
  EXPECT_EQ(YamlQuoted("a\nb\tc\rd"), "\"a\\nb\\tc\\rd\"");
  EXPECT_EQ(YamlQuoted("\"\\"), "\"\\\"\\\\\"");
}

// Invalid characters are written as messages show them.
TEST(YamlQuoted, ShowsWhatADocumentMayNotHold) {
  EXPECT_EQ(YamlQuoted("\x1b[2J"), "\"\\\\x1b[2J\"");
  EXPECT_EQ(YamlQuoted("\xFF"), "\"\\\\xff\"");
  EXPECT_EQ(YamlQuoted("\xE2\x80\xAE"), "\"\\\\u202e\"");
}

}  // namespace
}  // namespace stepcast
