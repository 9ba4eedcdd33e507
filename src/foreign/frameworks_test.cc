#include "src/foreign/frameworks.h"

#include <set>

#include "gtest/gtest.h"
#include "src/foreign/readers.h"

namespace stepcast::foreign {
namespace {

Document With(std::initializer_list<const char*> names, const char* file = "a.yaml") {
  Document document{.file = file};
  for (const char* name : names) document.settings.push_back({name, Value::Text("1")});
  return document;
}

TEST(Frameworks, NoTableHasAnOptionTwice) {
  for (const Framework* framework : Frameworks()) {
    std::set<std::string_view> names;
    for (const Option& option : framework->table().options) {
      EXPECT_TRUE(names.insert(option.name).second) << framework->form << ": " << option.name;
    }
  }
}

TEST(Frameworks, EveryRowSaysSomething) {
  for (const Framework* framework : Frameworks()) {
    for (const Option& option : framework->table().options) {
      EXPECT_EQ(option.effect == Effect::kSets, !option.key.empty()) << option.name;
      EXPECT_EQ(option.effect == Effect::kNotModelled, !option.consequence.empty()) << option.name;
    }
  }
}

TEST(Frameworks, TorchtitanIsKnownByItsKeys) {
  const auto recognised = Recognise(With({"model.flavor", "training.seq_len"}, "a.toml"));
  ASSERT_TRUE(recognised.has_value());
  EXPECT_EQ(recognised->framework->name, "torchtitan");
}

TEST(Frameworks, ArgumentsOfMegatronAreNamedAsOnItsCommandLine) {
  for (const char* prefix : {"", "MODEL_ARGS.--"}) {
    Document document{.file = "a.yaml"};
    for (const char* name : {"num_layers", "seq-length"}) {
      document.settings.push_back({std::string(prefix) + name, Value::Text("8")});
    }
    const auto recognised = Recognise(document);
    ASSERT_TRUE(recognised.has_value());
    EXPECT_EQ(recognised->framework->name, "Megatron-LM");
    EXPECT_TRUE(recognised->document.Has("num-layers"));
  }
}

TEST(Frameworks, FilesOfProgramsThatAreNotReadHaveNames) {
  EXPECT_EQ(OtherProgramOf(With({"pipe-parallel-size"})), "a GPT-NeoX configuration");
  EXPECT_EQ(OtherProgramOf(With({"base_emb_dim"})), "a MaxText configuration");
  EXPECT_EQ(OtherProgramOf(With({"whatever"})), "");
}

TEST(Frameworks, ScenariosAndModelsAreTold) {
  EXPECT_TRUE(IsScenario(With({"stepcast", "training.precision"})));
  EXPECT_TRUE(IsModel(With({"model_type", "hidden_size"})));
  EXPECT_TRUE(IsModel(With({"_class_name"}, "config.json")));
  EXPECT_TRUE(IsModel(With({"hidden_size"}, "model/config.json")));
  EXPECT_FALSE(IsModel(With({"hidden_size"}, "my.json")));
  EXPECT_FALSE(IsModel(With({"model_type", "base_model"})));
}

using Pattern = std::vector<bool>;

TEST(LayerPattern, SumsAndMultiplesOfLists) {
  EXPECT_EQ(ParseLayerPattern(Value::Text("([0]*2+[1]*3)")),
            (Pattern{false, false, true, true, true}));
  EXPECT_EQ(ParseLayerPattern(Value::Text("'([0, 1]) * 2'")), (Pattern{false, true, false, true}));
  EXPECT_EQ(ParseLayerPattern(Value::Text("([1]+[0]*2)*1+[1]")),
            (Pattern{true, false, false, true}));
}

TEST(LayerPattern, ListsOfOtherFiles) {
  Value value{.kind = Value::Kind::kList};
  value.items = {"0", "1"};
  EXPECT_EQ(ParseLayerPattern(value), (Pattern{false, true}));
}

TEST(LayerPattern, NothingElseIsEvaluated) {
  for (const char* text : {"", "3", "[0]*", "[0]*-1", "[2]", "([0]", "[0])", "[0]*99999999999999",
                           "f()", "[0]*[1]", "[1]*10000+[1]", "[1]*0"}) {
    EXPECT_FALSE(ParseLayerPattern(Value::Text(text)).has_value()) << text;
  }
  std::string nested(50, '(');
  nested.append("[0]").append(50, ')');
  EXPECT_FALSE(ParseLayerPattern(Value::Text(nested)).has_value());
}

}  // namespace

}  // namespace stepcast::foreign
