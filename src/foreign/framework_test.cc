#include "src/foreign/framework.h"

#include "gtest/gtest.h"

namespace stepcast::foreign {
namespace {

std::string_view Options() {
  return R"(
rules: seed batch=8
sets:
  training.seq_len: {key: training.sequence_length, default: 2048}
  training.dtype: {key: training.parameter_dtype, default: float32, words: float32=fp32 bfloat16=bf16}
  compile: {key: training.compile, words: bool}
not_modelled:
  early_step: {neutral: false, assumption: memory is too high}
no_effect: metrics.*
batches:
  - {let: large, to: integer.batch > 4}
  - first:
      - {set: training.micro_batch_size, integer: batch, if: large}
      - {omit: batch, assumption: the batch is large}
  - {set: training.loss, value: fused, on: seed}
  - {set: training.norm, to: "'fused' if large and seed else 'eager'", by: "'batch' if large else 'seed'"}
)";
}
const Framework kFramework = {.name = "titan",
                              .form = "titan's file",
                              .release = "1.0",
                              .table = Program<Options>,
                              .rules = {}};

const Surroundings kAlone;

Setting Line(const char* name, const char* value, int line) {
  return {name, Value::Text(value), {"a.toml", line, 1}};
}

TEST(Reading, RowsSayWhatSettingsMean) {
  const Document document{
      "a.toml",
      {Line("training.seq_len", "8192", 1), Line("training.dtype", "bfloat16", 2),
       Line("compile", "True", 3), Line("metrics.log_freq", "10", 4)}};
  Draft draft;
  Reading reading(kFramework, document, draft, kAlone);
  reading.ReadRows();
  reading.ReadDefaults();
  EXPECT_EQ(draft.Find("training.sequence_length")->value, "8192");
  EXPECT_EQ(draft.Find("training.parameter_dtype")->value, "bf16");
  EXPECT_EQ(draft.Find("training.compile")->value, "true");
  EXPECT_TRUE(draft.omissions().empty());
}

TEST(Reading, DefaultsNameTheRelease) {
  const Document document{"a.toml", {}};
  Draft draft;
  Reading reading(kFramework, document, draft, kAlone);
  reading.ReadRows();
  reading.ReadDefaults();
  EXPECT_EQ(draft.Find("training.sequence_length")->value, "2048");
  EXPECT_EQ(draft.Find("training.sequence_length")->origin, "titan's default at 1.0");
  EXPECT_EQ(draft.Find("training.parameter_dtype")->value, "fp32");
  EXPECT_EQ(reading.Integer("batch"), 8);
}

TEST(Reading, NamesWhatIsLeftOut) {
  const Document document{"a.toml",
                          {Line("early_step", "true", 1), Line("training.dtype", "int4", 2),
                           Line("training.new_key", "3", 3)}};
  Draft draft;
  Reading reading(kFramework, document, draft, kAlone);
  reading.ReadRows();
  ASSERT_EQ(draft.omissions().size(), 3u);
  EXPECT_EQ(draft.omissions()[0].option, "early_step = true");
  EXPECT_EQ(draft.omissions()[0].consequence, "memory is too high");
  EXPECT_EQ(draft.omissions()[1].option, "training.dtype = int4");
  EXPECT_EQ(draft.omissions()[2].consequence, "");
}

TEST(Reading, NeutralValuesAreNotLeftOut) {
  const Document document{"a.toml", {Line("early_step", "False", 1)}};
  Draft draft;
  Reading(kFramework, document, draft, kAlone).ReadRows();
  EXPECT_TRUE(draft.omissions().empty());
}

TEST(Reading, ASwitchThatIsNeitherOnNorOffIsAMistake) {
  const Document document{"a.toml", {Line("compile", "maybe", 7)}};
  Draft draft;
  Reading(kFramework, document, draft, kAlone).ReadRows();
  ASSERT_EQ(draft.mistakes().size(), 1u);
  EXPECT_EQ(draft.mistakes()[0].code, "foreign.value");
  EXPECT_EQ(draft.mistakes()[0].location.line, 7);
}

TEST(WordFor, FindsTheScenariosWord) {
  EXPECT_EQ(WordFor("a=b c= d=e", "d"), "e");
  EXPECT_EQ(WordFor("a=b c= d=e", "c"), "");
  EXPECT_EQ(WordFor("a=b c= d=e", "b"), std::nullopt);
}

TEST(ScenarioWords, AreNumbersTruthsAndText) {
  EXPECT_EQ(ScenarioWords(Value::Text("1e9")), "1000000000");
  EXPECT_EQ(ScenarioWords(Value::Text("True")), "true");
  EXPECT_EQ(ScenarioWords(Value::Text("configs/a b.json")), "configs/a b.json");
  EXPECT_EQ(ScenarioWords(Value::Text("a: \"b\"")), "a: \"b\"");
}

TEST(Reading, AppliesTheRulesOfASection) {
  for (const bool large : {true, false}) {
    const Document document{
        "a.toml",
        {Line("batch", large ? "16" : "2", 1), Line("seed", large ? "false" : "true", 2)}};
    Draft draft;
    Reading reading(kFramework, document, draft, kAlone);
    reading.Apply("batches");
    EXPECT_EQ(draft.Has("training.micro_batch_size"), large);
    EXPECT_EQ(draft.omissions().empty(), large);
    EXPECT_EQ(draft.Has("training.loss"), !large);
    EXPECT_EQ(draft.Find("training.norm")->value, "eager");
    EXPECT_EQ(draft.Find("training.norm")->origin, large ? "a.toml:1" : "a.toml:2");
  }
}

}  // namespace
}  // namespace stepcast::foreign
