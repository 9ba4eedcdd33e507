#include "src/foreign/python_settings.h"

#include <string>

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

}  // namespace
}  // namespace stepcast::foreign
