#include "src/foreign/python_settings.h"

#include "gtest/gtest.h"

namespace stepcast::foreign {
namespace {

std::string TextOf(const Document& document, const char* name) {
  const Setting* setting = document.Find(name);
  return setting == nullptr ? "(none)" : setting->value.text;
}

TEST(Python, KeywordArgumentsBecomeDottedNames) {
  const auto document = ParsePythonSettings(
      "from x import y\n"
      "\n"
      "def llama3_8b() -> Trainer.Config:\n"
      "    \"\"\"Says (what it is.\"\"\"\n"
      "    spec = model_registry(\"8B\", attn_backend='flex')  # a comment (\n"
      "    return Trainer.Config(\n"
      "        model_spec=spec,\n"
      "        training=TrainingConfig(tokens=4 * 4096, ratio=-0.5, seed=None),\n"
      "        optimizer=default_adamw(lr=8e-4),\n"
      "        names=[\"a\", \"b\"],\n"
      "    )\n",
      "a.py", "");
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(TextOf(*document, "function"), "llama3_8b");
  EXPECT_EQ(TextOf(*document, "model_spec"), "model_registry");
  EXPECT_EQ(TextOf(*document, "model_spec.0"), "8B");
  EXPECT_EQ(TextOf(*document, "model_spec.attn_backend"), "flex");
  EXPECT_EQ(document->Find("training.tokens")->value.Integer(), 16384);
  EXPECT_EQ(document->Find("training.tokens")->location.line, 8);
  EXPECT_EQ(document->Find("training.ratio")->value.Number(), -0.5);
  EXPECT_EQ(document->Find("training.seed")->value.kind, Value::Kind::kNothing);
  EXPECT_EQ(document->Find("names")->value.items, (std::vector<std::string>{"a", "b"}));
}

TEST(Python, WhatIsComputedIsNoValue) {
  const auto document = ParsePythonSettings(
      "def f():\n    return C(a=len(x) + 1, b=f\"{x}\", c=x[0], d=[i for i in y], e=2, g=a or b)\n",
      "a.py", "");
  ASSERT_TRUE(document.has_value());
  for (const char* name : {"b", "c", "g"}) {
    EXPECT_EQ(document->Find(name)->value.kind, Value::Kind::kExpression) << name;
  }
  EXPECT_EQ(document->Find("a")->value.Integer(), std::nullopt);
  EXPECT_EQ(TextOf(*document, "e"), "2");
}

constexpr const char* kTwo =
    "def small():\n    return C(training=T(steps=10))\n\n"
    "def large():\n    config = small()\n    config.training.steps = 20\n"
    "    config.compile = D(enable=True)\n    if x:\n        config.training.steps = 30\n"
    "    return config\n";

TEST(Python, AFunctionMayChangeWhatAnotherReturned) {
  const auto document = ParsePythonSettings(kTwo, "a.py", "large");
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(TextOf(*document, "training.steps"), "20");
  EXPECT_EQ(TextOf(*document, "compile.enable"), "True");
}

TEST(Python, AsksWhichFunctionIsMeant) {
  const auto document = ParsePythonSettings(kTwo, "a.py", "");
  ASSERT_FALSE(document.has_value());
  EXPECT_EQ(document.error()[0].code, "foreign.missing");
  EXPECT_NE(document.error()[0].hint.find("--function small"), std::string::npos);
  EXPECT_FALSE(ParsePythonSettings(kTwo, "a.py", "medium").has_value());
}

constexpr const char* kRecipe =
    "from megatron.bridge.recipes.llama import (\n    llama3_8b_pretrain_config as recipe,\n)\n"
    "LENGTH: int = 4 * 1024\n\n"
    "def main() -> None:\n    cfg: ConfigContainer = recipe(micro_batch_size=2)\n"
    "    cfg.model.seq_length = LENGTH\n    cfg.optimizer.exp_avg_dtype = torch.bfloat16\n"
    "    if args.long:\n        cfg.model.context_parallel_size = args.ranks\n"
    "    pretrain(cfg, step)\n\nif __name__ == \"__main__\":\n    main()\n";

TEST(Python, AFunctionMayCallARecipe) {
  const auto document = ParsePythonSettings(kRecipe, "a.py", "");
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(TextOf(*document, "function"), "main");
  EXPECT_EQ(TextOf(*document, "recipe"), "llama3_8b_pretrain_config");
  EXPECT_EQ(document->Find("recipe")->location.line, 7);
  EXPECT_EQ(TextOf(*document, "micro_batch_size"), "2");
  EXPECT_EQ(document->Find("model.seq_length")->value.Integer(), 4096);
  EXPECT_EQ(TextOf(*document, "optimizer.exp_avg_dtype"), "bfloat16");
  EXPECT_EQ(document->Find("model.context_parallel_size"), nullptr);
  EXPECT_EQ(TextOf(*document, "model.context_parallel_size under a condition"), "args.ranks");
}

TEST(Python, ARecipeMayBeNamedByItsModule) {
  const auto older = ParsePythonSettings(
      "from megatron.hub.recipes.llm.llama3_8b import pretrain_config\n"
      "if __name__ == '__main__':\n    cfg = pretrain_config()\n    cfg.train.train_iters = 5\n",
      "a.py", "");
  ASSERT_TRUE(older.has_value());
  EXPECT_EQ(TextOf(*older, "recipe"), "llama3_8b");
  EXPECT_EQ(TextOf(*older, "train.train_iters"), "5");
  const auto script = ParsePythonSettings(
      "from nemo.collections import llm\n"
      "recipe = llm.llama3_70b.pretrain_recipe(num_nodes=4)\n"
      "recipe.trainer.strategy.context_parallel_size = 2\n",
      "a.py", "");
  ASSERT_TRUE(script.has_value());
  EXPECT_EQ(TextOf(*script, "recipe"), "llama3_70b");
  EXPECT_EQ(TextOf(*script, "trainer.strategy.context_parallel_size"), "2");
  EXPECT_EQ(TextOf(*script, "num_nodes"), "4");
}

TEST(Python, AModelOfTheHubMayHaveSettings) {
  const auto document = ParsePythonSettings(
      "def a_pretrain_config():\n    cfg = _pretrain_common()\n"
      "    cfg.model = AutoBridge.from_hf_pretrained(\"o/m\").to_megatron_provider(load=False)\n"
      "    cfg.model.tensor_model_parallel_size = 2\n    return cfg\n",
      "a.py", "");
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(TextOf(*document, "model.0"), "o/m");
  EXPECT_EQ(TextOf(*document, "model.tensor_model_parallel_size"), "2");
  EXPECT_EQ(TextOf(*document, "recipe"), "_pretrain_common");
}

TEST(Python, CallsInListsHaveArguments) {
  const auto document =
      ParsePythonSettings("def f():\n    return C(a=[D(), E(x=1)])\n", "a.py", "");
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(document->Find("a")->value.items, (std::vector<std::string>{"D", "E"}));
  EXPECT_EQ(TextOf(*document, "a.1.x"), "1");
}

TEST(Python, TakesAnyText) {
  EXPECT_FALSE(ParsePythonSettings("x = (", "a.py", "").has_value());
  EXPECT_FALSE(ParsePythonSettings("x = 'a\n", "a.py", "").has_value());
  EXPECT_FALSE(ParsePythonSettings("def f():\n  return f()\n", "a.py", "").has_value());
  const std::string deep = "def f():\n  return " + std::string(100'000, '(') + "\n";
  EXPECT_FALSE(ParsePythonSettings(deep, "a.py", "").has_value());
  const std::string closed =
      "def f():\n  return C(a=" + std::string(50'000, '[') + std::string(50'000, ']') + ")\n";
  EXPECT_TRUE(ParsePythonSettings(closed, "a.py", "").has_value());
}

// Forty lines, each of which stands for twice as many values as the one before.
TEST(Python, StandsForAMillionValuesAtMost) {
  const auto file = [](int kind, int lines) {
    std::string text = kind == 0 ? "a0 = [1]\n" : "a0 = f(x=1)\n";
    for (int i = 0; i < lines; ++i) {
      const std::string before = "a" + std::to_string(i), own = "a" + std::to_string(i + 1);
      text += kind == 0   ? own + " = [" + before + ", " + before + "]\n"
              : kind == 1 ? own + " = f(x=" + before + ", y=" + before + ")\n"
                          : own + " = f(x=1)\n" + own + ".b = " + before + "\n" + own +
                                ".c = " + before + "\n";
    }
    return text + "def config():\n  return C(a=a" + std::to_string(lines) + ")\n";
  };
  for (const int kind : {0, 1, 2}) {
    const auto document = ParsePythonSettings(file(kind, 40), "a.py", "");
    ASSERT_FALSE(document.has_value());
    EXPECT_EQ(document.error().at(0).code, "file.too-large");
    EXPECT_TRUE(ParsePythonSettings(file(kind, 10), "a.py", "").has_value());
  }
}

}  // namespace
}  // namespace stepcast::foreign
