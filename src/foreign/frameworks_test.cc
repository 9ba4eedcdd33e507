#include "src/foreign/frameworks.h"

#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

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
    for (const Option& option : framework->options) {
      EXPECT_TRUE(names.insert(option.name).second) << framework->form << ": " << option.name;
    }
    std::istringstream without_effect{std::string(framework->without_effect)};
    for (std::string name; without_effect >> name;) {
      EXPECT_FALSE(names.contains(name)) << framework->form << ": " << name;
    }
  }
}

TEST(Frameworks, EveryRowSaysSomething) {
  for (const Framework* framework : Frameworks()) {
    for (const Option& option : framework->options) {
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
  EXPECT_FALSE(IsModel(With({"model_type", "base_model"})));
}

}  // namespace
}  // namespace stepcast::foreign
