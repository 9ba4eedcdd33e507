#include <cmath>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "src/formats/json_tree.h"

namespace stepcast::formats {
namespace {

using Kind = JsonValue::Kind;

Diagnostics MistakesIn(std::string_view text) {
  const Result<JsonObject> object = JsonObject::Parse(text, "f.json");
  return object.has_value() ? Diagnostics() : object.error();
}

TEST(JsonObjectTest, FindsValuesAndTheirKeys) {
  const auto object = JsonObject::Parse(
      "{\n  \"a\": 1, \"b\": {\"c\": true,\n    \"d\\\"e\": \"x\"},\n  \"f\": -0.5, \"g\": null,\n"
      "  \"h\": [{\"i\": 1}], \"j\": {\"k\": {\"l\": 2}}}",
      "f.json");
  ASSERT_TRUE(object.has_value());
  const JsonValue* a = object->Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->kind, Kind::kInteger);
  EXPECT_EQ(a->integer, 1);
  EXPECT_EQ(a->location.line, 2);
  EXPECT_EQ(a->location.column, 3);
  const JsonValue* c = object->Find("b.c");
  ASSERT_NE(c, nullptr);
  EXPECT_TRUE(c->boolean);
  EXPECT_EQ(c->location.line, 2);
  EXPECT_EQ(c->location.column, 17);
  const JsonValue* d = object->Find("b.d\"e");
  ASSERT_NE(d, nullptr);
  EXPECT_EQ(d->text, "x");
  EXPECT_EQ(d->location.line, 3);
  EXPECT_EQ(d->location.column, 5);
  EXPECT_EQ(object->Find("f")->number, -0.5);
  EXPECT_EQ(object->Find("g")->kind, Kind::kNull);
  EXPECT_EQ(object->Find("h")->kind, Kind::kArray);
  EXPECT_EQ(object->Find("j.k")->kind, Kind::kObject);
  ASSERT_NE(object->Find("j.k.l"), nullptr);
  EXPECT_EQ(object->Find("j.k.l")->integer, 2);
  EXPECT_EQ(object->Find("h.i"), nullptr);
  EXPECT_EQ(object->location().line, 1);
}

// Python's json writes these numbers, which JSON does not define.
TEST(JsonObjectTest, NumbersOfPython) {
  const auto object = JsonObject::Parse(
      "{\"a\": NaN, \"b\": Infinity,\"c\":-Infinity, \"d\": \"NaN\", \"e\": 100, \"f\": 2}",
      "f.json");
  ASSERT_TRUE(object.has_value());
  EXPECT_TRUE(std::isnan(object->Find("a")->number));
  EXPECT_EQ(object->Find("b")->kind, Kind::kNumber);
  EXPECT_EQ(object->Find("b")->number, std::numeric_limits<double>::infinity());
  EXPECT_EQ(object->Find("c")->number, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(object->Find("d")->text, "NaN");
  EXPECT_EQ(object->Find("e")->integer, 100);
  EXPECT_EQ(object->Find("f")->integer, 2);
  for (const char* wrong :
       {"{\"a\": NaNa}", "{\"a\": 1NaN}", "{\"a\": Infinity1}", "{\"a\": nan}"}) {
    const Diagnostics mistakes = MistakesIn(wrong);
    ASSERT_EQ(mistakes.size(), 1U) << wrong;
    EXPECT_EQ(mistakes[0].code, "file.not-json");
  }
}

// Values are counted in any container.
TEST(JsonObjectTest, IsBounded) {
  const auto texts = [](int count) {
    std::string text = "{\"a\":[\"x\"";
    for (int i = 1; i < count; ++i) text += ",\"x\"";
    return text + "]}";
  };
  EXPECT_TRUE(MistakesIn(texts(199'999)).empty());  // and the array itself
  const Diagnostics mistakes = MistakesIn(texts(200'000));
  ASSERT_EQ(mistakes.size(), 1U);
  EXPECT_EQ(mistakes[0].code, "json.too-large");
  EXPECT_EQ(mistakes[0].message, "the file has more than 200000 values");
}

// Paths have at most four keys: deeper values are counted, but not kept.
TEST(JsonObjectTest, DeepObjectsHaveNoContent) {
  const auto object = JsonObject::Parse(
      "{\"a\": {\"b\": {\"c\": {\"d\": {\"e\": 1, \"f\": 2}, \"g\": 3}}}}", "f.json");
  ASSERT_TRUE(object.has_value());
  ASSERT_NE(object->Find("a.b.c.d"), nullptr);
  EXPECT_EQ(object->Find("a.b.c.d")->kind, Kind::kObject);
  EXPECT_EQ(object->Find("a.b.c.d")->elements, 2);
  EXPECT_EQ(object->Find("a.b.c.d.e"), nullptr);
  EXPECT_EQ(object->Find("a.b.c")->elements, 2);
  EXPECT_EQ(object->values().size(), 5U);  // a, b, c, d and g
}

TEST(JsonObjectTest, ArraysHaveTheirTextsAndNumbers) {
  const auto object = JsonObject::Parse(
      "{\"a\": [\"x\", 1, \"y\"], \"b\": {\"c\": [\"z\", [\"w\"]], \"d\": []}}", "f.json");
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(object->Find("a")->elements, 3);
  EXPECT_EQ(object->Find("a.0")->text, "x");
  EXPECT_EQ(object->Find("a.1")->integer, 1);
  EXPECT_EQ(object->Find("a.2")->text, "y");
  EXPECT_EQ(object->Find("a.2")->location.column, 2);  // that of its key
  EXPECT_EQ(object->Find("b.c.0")->text, "z");
  EXPECT_EQ(object->Find("b.c.1"), nullptr);
  EXPECT_EQ(object->Find("b.c")->elements, 2);
  EXPECT_EQ(object->Find("b.d")->elements, 0);
}

TEST(JsonObjectTest, SyntaxErrorsHaveAPlace) {
  const Diagnostics mistakes = MistakesIn("{\"a\": 1,\n \"b\" 2}");
  ASSERT_EQ(mistakes.size(), 1U);
  EXPECT_EQ(mistakes[0].code, "file.not-json");
  EXPECT_EQ(mistakes[0].location.line, 2);
  EXPECT_EQ(mistakes[0].location.column, 6);
  EXPECT_EQ(mistakes[0].message.find('\n'), std::string::npos);
}

TEST(JsonObjectTest, EveryDuplicateKeyIsReported) {
  const Diagnostics mistakes = MistakesIn("{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2},\n\"a\": 3}");
  ASSERT_EQ(mistakes.size(), 2U);
  EXPECT_EQ(mistakes[0].code, "input.duplicate-key");
  EXPECT_EQ(mistakes[0].location.column, 24);
  EXPECT_EQ(mistakes[1].location.line, 2);
  EXPECT_EQ(mistakes[1].location.column, 1);
}

TEST(JsonObjectTest, OtherThingsAreRefused) {
  EXPECT_EQ(MistakesIn("[1, 2]").at(0).code, "input.wrong-kind");
  EXPECT_EQ(MistakesIn("3").at(0).code, "input.wrong-kind");
  EXPECT_EQ(MistakesIn("").at(0).code, "file.not-json");
  EXPECT_EQ(MistakesIn("{} x").at(0).code, "file.not-json");
  EXPECT_EQ(MistakesIn("{\"a\": 1e999}").at(0).code, "file.not-json");
  EXPECT_EQ(MistakesIn("{\"a\": \"\xFF\"}").at(0).code, "file.not-text");
}

TEST(JsonObjectTest, IntegersBeyond64BitsAreNumbers) {
  const auto object = JsonObject::Parse("{\"a\": 18446744073709551615}", "f.json");
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(object->Find("a")->kind, Kind::kNumber);
}

TEST(JsonObjectTest, DeepNestingIsHarmless) {
  std::string text = "{\"a\": ";
  for (int i = 0; i < 100'000; ++i) text += "[";
  EXPECT_EQ(MistakesIn(text).at(0).code, "json.too-deep");
}

TEST(JsonObject, IsBounded) {
  std::string keys = "{";
  for (int i = 0; i < 300'000; ++i) keys += "\"" + std::to_string(i) + "\": 1,";
  EXPECT_EQ(MistakesIn(keys + "\"a\": 1}").at(0).code, "json.too-large");
  EXPECT_EQ(MistakesIn("{\"a\": " + std::string(1'000'000, '[')).at(0).code, "json.too-deep");
  std::string twice = "{";
  for (int i = 0; i < 1000; ++i) twice += "\"a\": 1,";
  EXPECT_EQ(MistakesIn(twice + "\"b\": 1}").size(), 100u);
}

std::string FaultOf(const std::string& text) {
  const auto tree = ParseJsonTree(text);
  return tree ? "" : tree.error().what;
}

TEST(ParseJsonTree, ReadsAndSaysWhereItIsNone) {
  EXPECT_EQ(ParseJsonTree("{\"a\": [1, 2]}")->at("a").at(1), 2);
  EXPECT_EQ(FaultOf("{\"a\": [1, 2"), "the text is incomplete");
  EXPECT_EQ(FaultOf("{\"a\": 1, b}"), "unexpected text");
  EXPECT_EQ(ParseJsonTree("{\"a\": 1, b}").error().offset, 9u);
  EXPECT_EQ(FaultOf("[1e999]"), "a number is too large");
}

TEST(ParseJsonTree, IsBounded) {
  EXPECT_EQ(FaultOf(std::string(60, '[') + std::string(60, ']')), "");
  EXPECT_EQ(FaultOf(std::string(100'000, '[')), "brackets are nested more than 64 levels deep");
  std::string many = "[0";
  for (int i = 0; i < 1'000'000; ++i) many += ",0";
  EXPECT_EQ(FaultOf(many + "]"), "the file has more than 1000000 values");
}

}  // namespace

}  // namespace stepcast::formats
