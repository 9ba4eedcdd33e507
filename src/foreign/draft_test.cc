#include "src/foreign/draft.h"

#include "gtest/gtest.h"

namespace stepcast::foreign {
namespace {

const Location kHere{"train.toml", 14, 3};
const Location kThere{"ds.json", 2, 1};

TEST(Draft, WhatIsStatedTakesThePlaceOfWhatIsAssumed) {
  Draft draft;
  draft.Assume("training.compile", "false", "the default");
  draft.State("training.compile", "true", kHere);
  draft.Assume("training.compile", "false", "another default");
  ASSERT_NE(draft.Find("training.compile"), nullptr);
  EXPECT_EQ(draft.Find("training.compile")->value, "true");
  EXPECT_EQ(draft.Find("training.compile")->origin, "train.toml:14");
  EXPECT_TRUE(draft.mistakes().empty());
}

TEST(Draft, TwoFilesMustAgree) {
  Draft draft;
  draft.State("training.micro_batch_size", "2", kHere);
  draft.State("training.micro_batch_size", "2", kThere);
  EXPECT_TRUE(draft.mistakes().empty());
  draft.State("training.micro_batch_size", "4", kThere);
  ASSERT_EQ(draft.mistakes().size(), 1u);
  EXPECT_EQ(draft.mistakes()[0].code, "foreign.conflict");
  EXPECT_EQ(draft.mistakes()[0].location.file, "ds.json");
}

TEST(Draft, SentencesStayOnOneLine) {
  Draft draft;
  draft.State("training.micro_batch_size", "2", kHere);
  draft.State("training.micro_batch_size", "4\n5", kThere);
  ASSERT_EQ(draft.mistakes().size(), 1u);
  EXPECT_EQ(draft.mistakes()[0].message.find('\n'), std::string::npos);
  EXPECT_EQ(draft.mistakes()[0].hint,
            "to choose one of the two values, add --set training.micro_batch_size=4\\n"
            "5");
}

TEST(Draft, DegreesAreCountedWithAsWhatTheyCanBe) {
  Draft draft;
  EXPECT_EQ(draft.Degree("parallelism.tensor"), 1);
  draft.State("parallelism.tensor", "0", kHere);
  draft.State("parallelism.pipeline", "1000000000", kHere);
  EXPECT_EQ(draft.Degree("parallelism.tensor"), 1);
  EXPECT_EQ(draft.Degree("parallelism.pipeline"), 10'000);
}

TEST(Draft, TheCommandLineSettlesIt) {
  Draft draft;
  draft.Override("training.micro_batch_size", "1", "--set training.micro_batch_size=1");
  draft.State("training.micro_batch_size", "2", kHere);
  draft.State("training.micro_batch_size", "4", kThere);
  EXPECT_TRUE(draft.mistakes().empty());
  EXPECT_EQ(draft.Integer("training.micro_batch_size"), 1);
  EXPECT_EQ(draft.Find("training.micro_batch_size")->origin, "--set");
}

TEST(Draft, WhatIsTakenOutStaysOut) {
  Draft draft;
  draft.TakeOut("training.lora");
  draft.State("training.lora.rank", "8", kHere);
  draft.Assume("training.lora.dropout", "0", "the default");
  EXPECT_FALSE(draft.Has("training.lora"));
}

Draft Example() {
  Draft draft;
  draft.State("data_parallel.deepspeed.sub_group_size", "1000000000", {"ds.json", 9, 3});
  draft.State("data_parallel.zero_stage", "3", {"ds.json", 2, 5});
  draft.State("training.precision", "bf16", {"ds.json", 4, 5});
  draft.Assume("model", "llama3.1-8b", "assumed");
  return draft;
}

TEST(WriteScenario, PutsKeysInTheirSectionsAndSaysWhereTheyAreFrom) {
  const ScenarioText text = WriteScenario(Example(), "A title.");
  EXPECT_EQ(text.text,
            "# A title.\n"
            "# The comment after each value states the source of the value.\n"
            "stepcast: 1\n"
            "model: llama3.1-8b                            # assumed\n"
            "training:\n"
            "  precision: bf16                             # ds.json:4\n"
            "data_parallel:\n"
            "  zero_stage: 3                               # ds.json:2\n"
            "  deepspeed:\n"
            "    sub_group_size: 1000000000                # ds.json:9\n");
}

TEST(WriteScenario, ListsWhatItDoesNotCarry) {
  Draft draft = Example();
  draft.Omit({"ds.json", 12, 1}, "a.b = 1", "time is too short");
  draft.Omit({"ds.json", 13, 1}, "c = 2", "");
  const std::string text = WriteScenario(draft, "A title.").text;
  EXPECT_NE(text.find("#   ds.json:12 a.b = 1\n#       time is too short\n"), std::string::npos);
  EXPECT_NE(text.find("#   ds.json:13 c = 2\n"), std::string::npos);
}

TEST(AtOrigins, MovesMistakesToTheFileThatTheUserWrote) {
  const ScenarioText text = WriteScenario(Example(), "A title.");
  const Diagnostics moved =
      AtOrigins({{"a", {"s", 6, 14}, "m", "h"}, {"b", {"s", 4, 1}, "m", "h"}}, "s", text);
  EXPECT_EQ(moved[0].location.file, "ds.json");
  EXPECT_EQ(moved[0].location.line, 4);
  EXPECT_EQ(moved[1].location.file, "s");
}

}  // namespace

}  // namespace stepcast::foreign
