#include "src/formats/question.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast::formats {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseQuestion, ReadsScenariosSettingsAndAxesInTheirOrder) {
  const ReadQuestion read =
      ParseQuestion(R"({"id": 7, "ask": "sweep", "scenario": "a.yaml",)"
                    R"( "set": {"b": "25 MiB", "a": true, "c": 1.5, "d": null},)"
                    R"( "vary": {"z": [1, "2 MiB"], "y": "1..64 x2"}})");
  EXPECT_EQ(read.id, "7");
  ASSERT_TRUE(read.question) << Format(read.question.error());
  EXPECT_EQ(read.question->ask, "sweep");
  EXPECT_EQ(read.question->scenario.path, "a.yaml");
  EXPECT_THAT(read.question->set, ElementsAre("b=25 MiB", "a=true", "c=1.5", "d=null"));
  EXPECT_THAT(read.question->vary, ElementsAre("z=1,2 MiB", "y=1..64 x2"));
}

// Positions in messages then refer to lines that the caller can count.
TEST(ParseQuestion, AnObjectInTheScenariosPlaceIsATextWithALineForEachKey) {
  const ReadQuestion read =
      ParseQuestion(R"({"ask": "simulate", "scenario": {"stepcast": 1, "model": {"kind": "x"}}})");
  ASSERT_TRUE(read.question);
  EXPECT_EQ(read.question->scenario.path, "");
  EXPECT_EQ(read.question->scenario.text,
            "{\n \"stepcast\": 1,\n \"model\": {\n  \"kind\": \"x\"\n }\n}");
  EXPECT_EQ(read.id, "null");
}

TEST(ParseQuestion, ReadsTheOptionsOfAPlan) {
  const ReadQuestion read = ParseQuestion(
      R"({"id": "x", "ask": "plan", "scenario": "a", "target": "cost", "price": 2, "best": 3,)"
      R"( "fix": ["a", "b"], "fewer_nodes": true, "folder": "out", "force": true})");
  ASSERT_TRUE(read.question);
  EXPECT_EQ(read.id, "\"x\"");
  EXPECT_EQ(read.question->target, "cost");
  EXPECT_EQ(read.question->price, 2);
  EXPECT_EQ(read.question->best, 3);
  EXPECT_THAT(read.question->fix, ElementsAre("a", "b"));
  EXPECT_TRUE(read.question->fewer_nodes);
  EXPECT_EQ(read.question->folder, "out");
  EXPECT_TRUE(read.question->force);
}

TEST(ParseQuestion, SaysAllThatIsWrongWithAQuestionAndWhichItIs) {
  const ReadQuestion read = ParseQuestion(
      R"({"id": [1], "ask": "sweep", "scenario": 3, "set": [], "best": 1, "force": "yes"})");
  EXPECT_EQ(read.id, "[1]");
  ASSERT_FALSE(read.question);
  std::vector<std::string> codes;
  for (const Diagnostic& fault : read.question.error()) codes.push_back(fault.code);
  EXPECT_THAT(codes,
              ElementsAre("question.missing-key", "question.unknown-key", "question.unknown-key",
                          "question.wrong-type", "question.wrong-type", "question.wrong-type"));
}

TEST(ParseQuestion, RefusesWhatIsNoQuestion) {
  for (const char* line : {"", "[]", "{", "{\"ask\": \"\xff\"}", "{\"ask\": \"simulate\"} x"}) {
    const ReadQuestion read = ParseQuestion(line);
    EXPECT_EQ(read.id, "null") << line;
    ASSERT_FALSE(read.question) << line;
    EXPECT_EQ(read.question.error().front().code, "question.not-json") << line;
  }
  const ReadQuestion unknown = ParseQuestion(R"({"ask": "guess"})");
  ASSERT_FALSE(unknown.question);
  EXPECT_THAT(unknown.question.error().front().hint, HasSubstr("simulate, sweep"));
  EXPECT_EQ(ParseQuestion("{}").question.error().front().code, "question.missing-key");
}

}  // namespace
}  // namespace stepcast::formats
