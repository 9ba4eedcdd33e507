#include "src/formats/question.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast::formats {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two questions, and the variables that receive their values.
struct Asked {
  std::string scenario, target = "step_time", price;
  std::vector<std::string> set, vary, fix;
  bool fewer_nodes = false;
  int best = 5;
  ReadQuestion read;

  explicit Asked(std::string_view line) {
    std::map<std::string, Question> questions;
    for (const char* name : {"plan", "sweep"}) {
      Question& question = questions[name];
      question.Option("--scenario", &scenario, kPathOrObject, "").Required();
      question.Option("--set", &set, "KEY=VALUE", "");
      question.Option("--vary", &vary, "KEY=VALUES", "").required = name == std::string("sweep");
    }
    Question& plan = questions["plan"];
    plan.Option("--target", &target, "NAME", "");
    plan.Option("--price", &price, "MONEY", "");
    plan.Option("--fix", &fix, "KEY", "");
    plan.Flag("--fewer-nodes", &fewer_nodes, "");
    plan.Option("--best", &best, "N", "");
    read = ParseQuestion(line, questions);
  }
};

TEST(ParseQuestion, ReadsScenariosSettingsAndAxesInTheirOrder) {
  const Asked asked(R"({"id": 7, "ask": "sweep", "scenario": "a.yaml",)"
                    R"( "set": {"b": "25 MiB", "a": true, "c": 1.5, "d": null},)"
                    R"( "vary": {"z": [1, "2 MiB"], "y": "1..64 x2"}})");
  EXPECT_EQ(asked.read.id, "7");
  ASSERT_TRUE(asked.read.ask) << Format(asked.read.ask.error());
  EXPECT_EQ(*asked.read.ask, "sweep");
  EXPECT_EQ(asked.scenario, "a.yaml");
  EXPECT_THAT(asked.set, ElementsAre("b=25 MiB", "a=true", "c=1.5", "d=null"));
  EXPECT_THAT(asked.vary, ElementsAre("z=1,2 MiB", "y=1..64 x2"));
}

// Positions in messages then refer to lines that the caller can count.
TEST(ParseQuestion, AnObjectInTheScenariosPlaceIsATextWithALineForEachKey) {
  const Asked asked(R"({"ask": "plan", "scenario": {"stepcast": 1, "model": {"kind": "x"}}})");
  ASSERT_TRUE(asked.read.ask);
  EXPECT_TRUE(IsObject(asked.scenario));
  EXPECT_EQ(asked.scenario, "{\n \"stepcast\": 1,\n \"model\": {\n  \"kind\": \"x\"\n }\n}");
  EXPECT_EQ(asked.read.id, "null");
}

TEST(ParseQuestion, APathDoesNotBeginLikeAnObject) {
  EXPECT_EQ(Asked(R"({"ask": "plan", "scenario": "{a"})").scenario, "./{a");
}

TEST(ParseQuestion, ReadsEveryTypeOfValue) {
  const Asked asked(
      R"({"id": "x", "ask": "plan", "scenario": "a", "target": "cost", "price": 2.5, "best": 3,)"
      R"( "fix": ["a", "b"], "fewer_nodes": true, "vary": null})");
  ASSERT_TRUE(asked.read.ask);
  EXPECT_EQ(asked.read.id, "\"x\"");
  EXPECT_EQ(asked.target, "cost");
  EXPECT_EQ(asked.price, "2.5");
  EXPECT_EQ(asked.best, 3);
  EXPECT_THAT(asked.fix, ElementsAre("a", "b"));
  EXPECT_TRUE(asked.fewer_nodes);
}

TEST(ParseQuestion, SaysAllThatIsWrongWithAQuestionAndWhichItIs) {
  const Asked asked(
      R"({"id": [1], "ask": "sweep", "scenario": 3, "set": [], "best": 1, "force": "yes"})");
  EXPECT_EQ(asked.read.id, "[1]");
  ASSERT_FALSE(asked.read.ask);
  std::vector<std::string> codes;
  for (const Diagnostic& fault : asked.read.ask.error()) codes.push_back(fault.code);
  EXPECT_THAT(codes,
              ElementsAre("question.missing-key", "question.unknown-key", "question.unknown-key",
                          "question.wrong-type", "question.wrong-type"));
  EXPECT_THAT(asked.read.ask.error()[1].hint, HasSubstr("id, ask, scenario, set, vary"));
}

TEST(ParseQuestion, RefusesWhatIsNoQuestion) {
  for (const char* line : {"", "[]", "{", "{\"ask\": \"\xff\"}", "{\"ask\": \"plan\"} x"}) {
    const ReadQuestion read = Asked(line).read;
    EXPECT_EQ(read.id, "null") << line;
    ASSERT_FALSE(read.ask) << line;
    EXPECT_EQ(read.ask.error().front().code, "question.not-json") << line;
  }
  const ReadQuestion unknown = Asked(R"({"ask": "guess"})").read;
  ASSERT_FALSE(unknown.ask);
  EXPECT_THAT(unknown.ask.error().front().hint, HasSubstr("plan, sweep"));
  EXPECT_EQ(Asked("{}").read.ask.error().front().code, "question.missing-key");
}

}  // namespace
}  // namespace stepcast::formats
