#include "gtest/gtest.h"
#include "src/report/answers.h"

namespace stepcast::report {
namespace {

TEST(AnswerLine, PutsADocumentOnOneLine) {
  EXPECT_EQ(AnswerLine("7", "{\n  \"a b\": [\n    1,\n    2\n  ],\n  \"c\": \"x  \\n y\"\n}\n"),
            "{\"id\": 7, \"answer\": {\"a b\": [1,2],\"c\": \"x  \\n y\"}}\n");
}

TEST(MistakesLine, HasAllOfThemWithTheirPositions) {
  EXPECT_EQ(MistakesLine("\"q\"", {{"a.b", {"f.yaml", 3, 5}, "wrong: 'x'", "write y"}}),
            "{\"id\": \"q\", \"mistakes\": [{\"code\": \"a.b\",\"file\": \"f.yaml\",\"line\": 3,"
            "\"column\": 5,\"message\": \"wrong: 'x'\",\"hint\": \"write y\"}]}\n");
}

TEST(FailureLine, IsASentence) {
  EXPECT_EQ(FailureLine("null", "the disk is \"full\""),
            "{\"id\": null, \"failure\": \"the disk is \\\"full\\\"\"}\n");
}

}  // namespace
}  // namespace stepcast::report
