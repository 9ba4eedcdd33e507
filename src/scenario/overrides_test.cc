#include "src/scenario/overrides.h"

#include <string>

#include "gtest/gtest.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {
namespace {

YamlTree Parsed(const std::string& text) {
  Diagnostics diagnostics;
  return ParseYaml(text, "f", diagnostics).value();
}

// The tree after the override, or the diagnostic.
std::string After(const std::string& text, const std::string& option) {
  Diagnostics diagnostics;
  const auto tree = WithOverride(Parsed(text), option, diagnostics);
  return tree.has_value() ? CanonicalText(**tree) : Format(diagnostics);
}

TEST(WithOverride, ReplacesAddsAndRemoves) {
  EXPECT_EQ(After("a: 1\nb: {c: 2}", "b.c=3"), "{\"a\": 1, \"b\": {\"c\": 3}}");
  EXPECT_EQ(After("a: 1", "b=25 MiB"), "{\"a\": 1, \"b\": 25 MiB}");
  EXPECT_EQ(After("a: 1", "b.c.d=true"), "{\"a\": 1, \"b\": {\"c\": {\"d\": true}}}");
  EXPECT_EQ(After("a:", "a.b=1"), "{\"a\": {\"b\": 1}}");
  EXPECT_EQ(After("a: 1\nb: 2", "a=null"), "{\"b\": 2}");
  EXPECT_EQ(After("a: 1", "a={b: [1, x]}"), "{\"a\": {\"b\": [1, x]}}");
  EXPECT_EQ(After("a: 1", "a=\"2.6\""), "{\"a\": \"2.6\"}");
  EXPECT_EQ(After("a: 1", "a=x=y"), "{\"a\": 'x=y'}");
  EXPECT_EQ(After("a: [{b: 1}, {b: 2}]", "a.1.b=3"), "{\"a\": [{\"b\": 1}, {\"b\": 3}]}");
}

TEST(WithOverride, LeavesTheOldTreeAsItWas) {
  const YamlTree old = Parsed("a: {b: 1}");
  Diagnostics diagnostics;
  ASSERT_TRUE(WithOverride(old, "a.b=2", diagnostics).has_value());
  EXPECT_EQ(CanonicalText(*old), "{\"a\": {\"b\": 1}}");
}

TEST(WithOverride, GivesTheTreeItselfWhereThereIsNothingToRemove) {
  const YamlTree tree = Parsed("a: {b: 1}\nc:");
  for (const char* option : {"a.x=null", "x=null", "x.y.z=null", "c.d=~"}) {
    Diagnostics diagnostics;
    EXPECT_EQ(WithOverride(tree, option, diagnostics), tree) << option;
    EXPECT_TRUE(diagnostics.empty()) << option;
  }
  EXPECT_EQ(After("a: 1", "a.b=null").substr(0, 40), "--set a.b=null: error[override.no-mappin");
}

TEST(WithOverride, PositionsNameTheOption) {
  Diagnostics diagnostics;
  const auto tree = WithOverride(Parsed("a: {b: 1}"), "a.b= 2", diagnostics);
  const Location location = (*tree)->entries[0].value->entries[0].value->position.location();
  EXPECT_EQ(location.file, "--set a.b= 2");
  EXPECT_EQ(location.line, 0);
  EXPECT_EQ(location.column, 0);
}

TEST(WithOverride, SaysWhatIsWrong) {
  EXPECT_EQ(After("a: 1", "a"),
            "--set a: error[override.syntax]: a setting must have the form KEY=VALUE: 'a'\n  hint: "
            "write for example --set training.micro_batch_size=2\n");
  EXPECT_EQ(After("a: 1", "a="),
            "--set a=: error[override.syntax]: the setting has no value: 'a='\n  hint: write a "
            "value after '=', or KEY=null for the default\n");
  EXPECT_EQ(After("a: 1", "a..b=1"),
            "--set a..b=1: error[override.syntax]: a key must be words separated by dots: 'a..b'\n"
            "  hint: write for example training.precision\n");
  EXPECT_EQ(After("a: x.yaml", "a.b=1"),
            "--set a.b=1: error[override.no-mapping]: 'a' is a single value ('x.yaml'), not a "
            "mapping with keys\n  hint: set the value of 'a' instead\n");
  EXPECT_EQ(
      After("a: [1, 2]", "a.2=1"),
      "--set a.2=1: error[override.no-item]: 'a' has 2 items, numbered from 0, so item '2' does "
      "not exist\n"
      "  hint: write the number of an existing item, or set the complete sequence\n");
  EXPECT_EQ(After("a: 1", "a=[1").substr(0, 30), "--set a=[1: error[yaml.syntax]");
  EXPECT_EQ(After("a: 1", "=1").substr(0, 28), "--set =1: error[override.syn");
  EXPECT_EQ(After("a: 1", "a.=1").substr(0, 30), "--set a.=1: error[override.syn");
}

}  // namespace
}  // namespace stepcast::scenario
