#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using Lines = std::vector<std::string>;

TEST(TextWrapTest, BreaksAtBlanks) {
  EXPECT_EQ(WrapWords("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(WrapWords("one  two", 8), (Lines{"one  two"}));  // short lines stay unchanged
  EXPECT_EQ(WrapWords("", 5), (Lines{""}));
}

TEST(TextWrapTest, BreaksLongWordsBehindTheirParts) {
  EXPECT_EQ(WrapWords("training.micro_batch_size=8", 20),
            (Lines{"training.micro_", "batch_size=8"}));
  EXPECT_EQ(WrapWords("abcdefgh", 3), (Lines{"abc", "def", "gh"}));
  EXPECT_EQ(LongestPiece("micro_batch_size of it"), 6U);
}

TEST(TextWrapTest, TheRestStandsBelowTheWordsBehindALabel) {
  EXPECT_EQ(Wrapped("plan       fsdp2, ZeRO stage 3, prefetch 1\n", 30),
            "plan       fsdp2, ZeRO stage\n"
            "           3, prefetch 1\n");
  EXPECT_EQ(Wrapped("  hint: write something else here", 20),
            "  hint: write\n"
            "  something else\n"
            "  here");
}

TEST(TextWrapTest, APathInASentenceStaysWhole) {
  EXPECT_EQ(Wrapped("wrote /a/folder/of/some/depth/file.yaml: 4 configurations", 20),
            "wrote\n"
            "/a/folder/of/some/depth/file.yaml:\n"
            "4 configurations");
}

TEST(TextWrapTest, CommandsGoOnBeforeAnOption) {
  EXPECT_EQ(Wrapped("  stepcast sweep a.yaml --vary 'b= --c' --json\n", 30),
            "  stepcast sweep a.yaml \\\n"
            "      --vary 'b= --c' --json\n");
  // Words are not broken.
  const std::string command = "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml\n";
  EXPECT_EQ(Wrapped(command, 20), command);
}

TEST(TextWrapTest, ReflowsParagraphs) {
  EXPECT_EQ(Reflowed("One sentence that was broken\nat some width.\n"
                     "\n"
                     "Targets:\n"
                     "  memory      the lowest\n"
                     "              peak\n"
                     "  gpus        few\n",
                     60),
            "One sentence that was broken at some width.\n"
            "\n"
            "Targets:\n"
            "  memory      the lowest peak\n"
            "  gpus        few\n");
}

// No letter is lost, and no line is too wide.
RC_GTEST_PROP(TextWrapTest, KeepsEveryLetter, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::element(' ', 'a', 'b', '_', '.'));
  const auto width = static_cast<std::size_t>(*rc::gen::inRange(1, 12));
  std::string letters, kept;
  for (const char c : text) letters += c == ' ' ? "" : std::string(1, c);
  for (const std::string& line : WrapWords(text, width)) {
    RC_ASSERT(WidthOf(line) <= width);
    for (const char c : line) kept += c == ' ' ? "" : std::string(1, c);
  }
  RC_ASSERT(kept == letters);
}

}  // namespace
}  // namespace stepcast::report
