#include "src/base/diagnostic.h"

#include "gtest/gtest.h"

namespace stepcast {
namespace {

TEST(Format, LeavesOutThePartsOfThePositionThatHaveNoMeaning) {
  EXPECT_EQ(Format(Diagnostic{"input.unknown-key", {"a.yaml", 3, 5}, "unknown key: 'x'", "did y"}),
            "a.yaml:3:5: error[input.unknown-key]: unknown key: 'x'\n  hint: did y\n");
  EXPECT_EQ(Format(Diagnostic{"file.not-found", {"a.yaml", 0, 0}, "no", ""}),
            "a.yaml: error[file.not-found]: no\n");
  EXPECT_EQ(Format(Diagnostic{"plan.x", {"", 0, 0}, "no", ""}), "error[plan.x]: no\n");
}

TEST(Format, KeepsTheOrderOfSeveral) {
  const Diagnostics several = {{"b", {"f", 2, 1}, "second", ""}, {"a", {"f", 1, 1}, "first", ""}};
  EXPECT_EQ(Format(several), "f:2:1: error[b]: second\nf:1:1: error[a]: first\n");
}

TEST(Format, NeverPassesControlCharactersOfAFileNameToTheTerminal) {
  EXPECT_EQ(Format(Diagnostic{"c", {"--set a=\x1b[31m\n", 0, 0}, "m", ""}),
            "--set a=\\x1b[31m\\n: error[c]: m\n");
}

TEST(Format, PrintsLongPathsWhole) {
  const std::string path = "/" + std::string(300, 'x') + ".yaml";
  EXPECT_EQ(Format(Diagnostic{"c", {path, 1, 2}, "m", ""}), path + ":1:2: error[c]: m\n");
}

TEST(NearestWord, FindsTypingMistakesOnly) {
  const std::vector<std::string_view> known = {"sequence_length", "precision", "data", "bf16"};
  EXPECT_EQ(NearestWord("sequence_lenght", known), "sequence_length");  // two letters swapped
  EXPECT_EQ(NearestWord("Precision", known), "precision");              // case
  EXPECT_EQ(NearestWord("precison", known), "precision");               // one missing
  EXPECT_EQ(NearestWord("bf17", known), "bf16");                        // one wrong
  EXPECT_EQ(NearestWord("optimizer", known), "");
  EXPECT_EQ(NearestWord("", known), "");
  EXPECT_EQ(NearestWord("x", {"y"}), "");  // one edit turns any letter into any other
}

TEST(NearestWord, CompletesTheStartOfOneWordOnly) {
  const std::vector<std::string_view> known = {"micro_batch_size", "checkpoint_early_stop",
                                               "checkpointed_blocks"};
  EXPECT_EQ(NearestWord("microbatch", known), "micro_batch_size");
  EXPECT_EQ(NearestWord("Micro-Batch", known), "micro_batch_size");
  EXPECT_EQ(NearestWord("checkpoint", known), "");
  EXPECT_EQ(NearestWord("mic", known), "");
}

TEST(NearestWord, TakesTheNearestAndOnATieTheFirst) {
  EXPECT_EQ(NearestWord("mib", {"GiB", "MiB"}), "MiB");
  EXPECT_EQ(NearestWord("abcf", {"abcd", "abce"}), "abcd");
}

TEST(Quoted, StaysOnOneLine) {
  EXPECT_EQ(Quoted("25"), "'25'");
  EXPECT_EQ(Quoted("a\nb\tc\x01"), "'a\\nb\\tc\\x01'");
  EXPECT_EQ(Quoted("\xE2\x80\xAE\xC2\x9B"), "'\\u202e\\u009b'");  // direction, a C1 control
  EXPECT_EQ(Quoted("B\xC3\xA4r \xFF"), "'B\xC3\xA4r \\xff'");
}

TEST(Quoted, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(Quoted(std::string(121, 'a')), "'" + std::string(120, 'a') + "...'");
  // The cut would fall inside the two-byte letter, so the letter is left out.
  EXPECT_EQ(Quoted(std::string(119, 'a') + "\xC3\xA9" + "b"), "'" + std::string(119, 'a') + "...'");
}

TEST(Format, StopsAfterAHundred) {
  Diagnostics many;
  for (int i = 1; i <= 250; ++i) many.push_back({"a", {"f", i, 1}, "wrong", ""});
  const std::string text = Format(many);
  EXPECT_NE(text.find("f:100:1: error[a]: wrong\n... and 150 more\n"), std::string::npos);
  many.resize(100);
  EXPECT_EQ(Format(many).find("more"), std::string::npos);
}

}  // namespace
}  // namespace stepcast
