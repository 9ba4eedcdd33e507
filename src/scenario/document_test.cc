#include "src/scenario/document.h"

#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/text_lines.h"

namespace stepcast::scenario {
namespace {

// "line:column code" of each, in order.
std::vector<std::string> Summary(const Diagnostics& diagnostics) {
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics) {
    lines.push_back(fmt::format("{}:{} {}", diagnostic.location.line, diagnostic.location.column,
                                diagnostic.code));
  }
  return lines;
}

// A sample format's reader: one key of every kind.
Diagnostics ReadSample(std::string_view text) {
  Diagnostics diagnostics;
  const std::optional<Node> root = ParseDocument(text, "sample.yaml", diagnostics);
  if (!root.has_value()) return diagnostics;
  MappingReader reader(*root, diagnostics);
  reader.ReadInteger("count", Need::kRequired, {1, 100});
  reader.ReadBoolean("flag", Need::kOptional);
  reader.ReadDecimal("ratio", Need::kOptional, {0, 1});
  reader.ReadText("name", Need::kOptional);
  reader.ReadBytes("size", Need::kOptional, Zero::kRefused);
  reader.ReadBandwidth("speed", Need::kOptional);
  reader.ReadTime("delay", Need::kOptional, Zero::kAllowed);
  reader.ReadFlopRate("peak", Need::kOptional, Zero::kRefused);
  reader.ReadVersion("version", Need::kOptional, "2.6");
  reader.ReadWord<int>("word", Need::kOptional, {{"ring", 1}, {"tree", 2}});
  if (const auto list = reader.ReadSequence("list", Need::kOptional)) {
    for (const Node& item : *list) scenario::ReadInteger(item, {0, 9}, diagnostics);
  }
  if (auto inner = reader.ReadMapping("inner", Need::kOptional)) {
    inner->ReadInteger("a", Need::kRequired, {0, 9});
    inner->Finish();
  }
  reader.Finish();
  return diagnostics;
}

struct Case {
  std::string text;
  std::vector<std::string> expected;
};

void Check(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    EXPECT_EQ(Summary(ReadSample(test.text)), test.expected) << Quoted(test.text);
  }
}

TEST(MappingReader, TakesEveryKind) {
  Check({{"count: 100\nflag: false\nratio: 0.25\nname: 'a b'\nsize: 25 MiB\nspeed: 400 Gbps\n"
          "delay: 0 ms\npeak: 989 TFLOPS\nversion: \"2.6\"\nword: tree\nlist: [1, 2]\n"
          "inner: {a: 3}\n",
          {}},
         {"{\"count\": 7, \"flag\": true, \"ratio\": 1e-3, \"size\": \"1 B\"}", {}}});
}

TEST(MappingReader, PointsAtTheValue) {
  Check({
      {"count: 0", {"1:8 input.out-of-range"}},
      {"count: 101", {"1:8 input.out-of-range"}},
      {"count: -1", {"1:8 input.out-of-range"}},
      {"count: 99999999999999999999", {"1:8 input.out-of-range"}},
      {"count: 010", {"1:8 input.not-an-integer"}},
      {"count: 0x10", {"1:8 input.not-an-integer"}},
      {"count: 1.0", {"1:8 input.not-an-integer"}},
      {"count: 1_000", {"1:8 input.not-an-integer"}},
      {"count: +1", {"1:8 input.not-an-integer"}},
      {"count: '1'", {"1:8 input.not-an-integer"}},
      {"count: ten", {"1:8 input.not-an-integer"}},
      {"count: [1]", {"1:8 input.wrong-kind"}},
      {"count: {a: 1}", {"1:8 input.wrong-kind"}},
      {"count: 1\nflag: yes", {"2:7 input.not-a-boolean"}},
      {"count: 1\nflag: True", {"2:7 input.not-a-boolean"}},
      {"count: 1\nflag: 'true'", {"2:7 input.not-a-boolean"}},
      {"count: 1\nratio: 2", {"2:8 input.out-of-range"}},
      {"count: 1\nratio: -0.5", {"2:8 input.out-of-range"}},
      {"count: 1\nratio: .5", {"2:8 input.not-a-number"}},
      {"count: 1\nratio: 5.", {"2:8 input.not-a-number"}},
      {"count: 1\nratio: nan", {"2:8 input.not-a-number"}},
      {"count: 1\nratio: inf", {"2:8 input.not-a-number"}},
      {"count: 1\nratio: ''", {"2:8 input.not-a-number"}},
      {"count: 1\nratio: 1e999", {"2:8 input.not-a-number"}},
      {"count: 1\nname: ''", {"2:7 input.no-value"}},
      {"count: 1\nsize: 25", {"2:7 input.bad-quantity"}},
      {"count: 1\nsize: 25 Mb", {"2:7 input.bad-quantity"}},
      {"count: 1\nsize: 0 B", {"2:7 input.out-of-range"}},
      {"count: 1\nsize: 2000000 TiB", {"2:7 input.out-of-range"}},
      {"count: 1\nspeed: 25 GB", {"2:8 input.bad-quantity"}},
      {"count: 1\nspeed: 0 GB/s", {"2:8 input.out-of-range"}},
      {"count: 1\ndelay: -1 ms", {"2:8 input.bad-quantity"}},
      {"count: 1\ndelay: 25 h", {"2:8 input.out-of-range"}},
      {"count: 1\npeak: 5", {"2:7 input.bad-quantity"}},
      {"count: 1\nversion: 2", {"2:10 input.not-a-version"}},
      {"count: 1\nversion: 2.6.1", {"2:10 input.not-a-version"}},
      {"count: 1\nversion: 2.06", {"2:10 input.not-a-version"}},
      {"count: 1\nword: rings", {"2:7 input.unknown-word"}},
      {"count: 1\nlist: 3", {"2:7 input.wrong-kind"}},
      {"count: 1\nlist: [1, x, 10]", {"2:11 input.not-an-integer", "2:14 input.out-of-range"}},
      {"count: 1\ninner: 5", {"2:8 input.wrong-kind"}},
      {"count: 1\ninner: {b: 5}", {"2:8 input.missing-key", "2:9 input.unknown-key"}},
  });
}

TEST(MappingReader, HintsOfBooleansNameTheKey) {
  for (const char* value : {"yes", "'true'"}) {
    const Diagnostics mistakes = ReadSample(fmt::format("count: 1\nflag: {}", value));
    ASSERT_EQ(mistakes.size(), 1U);
    EXPECT_EQ(mistakes.front().hint, "write 'flag: true' or 'flag: false'");
  }
}

TEST(MappingReader, PointsAtTheKeyOrTheMapping) {
  Check({
      {"flag: true", {"1:1 input.missing-key"}},
      {"count: 1\ncuont: 2", {"2:1 input.unknown-key"}},
      {"count: 1\n  # comment\ncount: 2", {"3:1 input.duplicate-key"}},
      {"count: 1\ninner: {a: 1, a: 2}", {"2:15 input.duplicate-key"}},
      {"count: 1\n[a]: 2", {"2:1 input.bad-key"}},
      {"count: 1\nnull: 2", {"2:1 input.bad-key"}},
  });
}

TEST(MappingReader, ReportsEveryMistakeOfAFile) {
  EXPECT_EQ(Summary(ReadSample("count: 0\n"
                               "count: 2\n"
                               "flag: maybe\n"
                               "colour: red\n"
                               "inner:\n"
                               "  a: 12\n"
                               "  c: 1\n")),
            (std::vector<std::string>{"2:1 input.duplicate-key", "1:8 input.out-of-range",
                                      "3:7 input.not-a-boolean", "6:6 input.out-of-range",
                                      "7:3 input.unknown-key", "4:1 input.unknown-key"}));
}

// The hint shows a number in the right notation; a word does not become 1.
TEST(MappingReader, ShowsTheIntegerThatWasMeant) {
  const auto hint = [](const std::string& value) {
    return ReadSample("count: " + value + "\nflag: true").at(0).hint;
  };
  EXPECT_EQ(hint("1e2"), "write 'count: 100'");
  EXPECT_EQ(hint("\"8\""), "write 'count: 8'");
  EXPECT_EQ(hint("1_0"), "write 'count: 10'");
  EXPECT_EQ(hint("4.0"), "write 'count: 4'");
  EXPECT_EQ(hint("auto"), "write an integer of at least 1");
  EXPECT_EQ(hint("4.5"), "write an integer of at least 1");
  EXPECT_EQ(hint("inf"), "write an integer of at least 1");
  EXPECT_EQ(hint("1e30"), "write an integer of at least 1");
}

TEST(ParseDocument, CallsATabATab) {
  Diagnostics diagnostics;
  EXPECT_FALSE(ParseDocument("a: 1\nb:\n  \tc: 2\n", "s.yaml", diagnostics).has_value());
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_EQ(Format(diagnostics[0]),
            "s.yaml:3:3: error[yaml.syntax]: not well-formed YAML: a tab indents this line\n"
            "  hint: indent the line with spaces\n");
}

TEST(ParseDocument, CallsTomlToml) {
  for (const char* text : {"# of a run\n[model]\nname = \"llama3\"\n", "steps = 10\n",
                           "[[runs]]\nname = 1\n", "job.name = \"a: b\"\n"}) {
    Diagnostics diagnostics;
    EXPECT_FALSE(ParseDocument(text, "s.toml", diagnostics).has_value()) << text;
    ASSERT_EQ(diagnostics.size(), 1u) << text;
    EXPECT_EQ(diagnostics[0].code, "file.not-yaml") << text;
    EXPECT_EQ(diagnostics[0].message, "this is TOML, not YAML");
  }
  for (const char* text : {"[a, b]\n", "[a]: 1\n", "a: b = c\n", "a b = 1\n", "- a = 1\n"}) {
    Diagnostics diagnostics;
    ParseDocument(text, "s.yaml", diagnostics);
    for (const Diagnostic& diagnostic : diagnostics) EXPECT_NE(diagnostic.code, "file.not-yaml");
  }
}

TEST(MappingReader, NamesValueAndRemedy) {
  const auto first = [](std::string_view text) {
    const Diagnostics diagnostics = ReadSample(text);
    return diagnostics.empty() ? std::string() : Format(diagnostics[0]);
  };
  EXPECT_EQ(first("cuont: 1\ncount: 1"),
            "sample.yaml:1:1: error[input.unknown-key]: unknown key: 'cuont'\n"
            "  hint: did you mean 'count'?\n");
  EXPECT_EQ(first("count: 1\nsize: 25"),
            "sample.yaml:2:7: error[input.bad-quantity]: 'size': bytes need a unit: '25'\n"
            "  hint: write for example '25 MiB'\n");
  EXPECT_EQ(first("count: 010"),
            "sample.yaml:1:8: error[input.not-an-integer]: 'count' needs an integer, without "
            "leading zeros: '010'\n"
            "  hint: write 'count: 10'\n");
  EXPECT_EQ(first("count: 1\nword: rign"),
            "sample.yaml:2:7: error[input.unknown-word]: 'word' must be one of ring, tree: "
            "'rign'\n"
            "  hint: did you mean 'ring'?\n");
  EXPECT_EQ(first("count: 1\ninner:\n  b: 2"),
            "sample.yaml:3:3: error[input.missing-key]: missing key: 'inner.a'\n"
            "  hint: add 'a:' with an integer\n");
  EXPECT_EQ(first("count: 1\nlist: [1, true]"),
            "sample.yaml:2:11: error[input.not-an-integer]: 'list[1]' needs an integer, in plain "
            "decimal digits: 'true'\n"
            "  hint: write an integer of at least 0\n");
}

TEST(ParseDocument, NeverThrowsOnBrokenText) {
  std::string deep_flow, deep_block;
  for (int i = 0; i < 20'000; ++i) deep_flow += "[";
  for (int i = 0; i < 2'000; ++i) deep_block += "- ";
  Check({
      {"", {"1:1 file.empty"}},
      {"# only a comment\n", {"1:1 file.empty"}},
      {"~", {"1:1 file.empty"}},
      {"just text", {"1:1 input.wrong-kind"}},
      {"- a\n- b", {"1:1 input.wrong-kind"}},
      {"count: 1\n---\ncount: 2", {"2:1 yaml.several-documents"}},
      {"count: &a 1", {"1:8 yaml.reference"}},
      {"count: !!int 1", {"1:8 yaml.reference"}},
      {"count: 1\nname: \xFF", {"2:7 file.not-text"}},
      {std::string("co\0unt: 1", 9), {"1:3 file.not-text"}},
      // yaml-cpp takes every bracket that is never closed for the start of a mapping's key, too.
      {deep_flow, {"1:33 yaml.too-deep"}},
      {deep_block, {"1:129 yaml.too-deep"}},
      {"count: 1\n  flag: true", {"2:7 yaml.syntax"}},
      {"count: [1, 2\n", {"1:13 yaml.syntax"}},
      {"count: 'abc", {"1:12 yaml.syntax"}},
      {"count: 'abc\nflag: true\n", {"2:11 yaml.syntax"}},  // yaml-cpp alone would take this
      {"count: \"abc\nflag: true\n\n", {"2:11 yaml.syntax"}},
      {"count: 1\n\tflag: true", {"2:1 yaml.syntax"}},
      {"count: 1\n...\nflag: true", {"3:1 yaml.several-documents"}},
      {"count: 1\n...\n", {}},
      {"\xEF\xBB\xBF"
       "count: 1\r\n",
       {}},  // byte order mark, Windows line ends
  });
}

TEST(CanonicalText, DependsOnContentOnly) {
  const auto canonical = [](std::string_view text) {
    Diagnostics diagnostics;
    return CanonicalText(*ParseDocument(text, "f", diagnostics)->tree());
  };
  EXPECT_EQ(canonical("a: 1\nb: [x, 'y']\nc:\n"), "{\"a\": 1, \"b\": [x, \"y\"], \"c\": null}");
  EXPECT_EQ(canonical("{a: 1, b: [x, \"y\"], c: null}"), canonical("a: 1\nb: [x, 'y']\nc:\n"));
  EXPECT_NE(canonical("{a: 1}"), canonical("{a: '1'}"));
  EXPECT_NE(canonical("[x, y]"), canonical("- x, y"));
}

std::string CodeOf(const std::string& text) {
  Diagnostics diagnostics;
  ParseDocument(text, "f", diagnostics);
  return diagnostics.empty() ? "" : diagnostics.front().code;
}

std::string Repeated(std::string_view text, std::size_t size) {
  std::string repeated;
  while (repeated.size() < size) repeated += text;
  return repeated;
}

TEST(ParseDocument, IsBounded) {
  constexpr std::size_t kMebibyte = 1 << 20;
  // yaml-cpp would keep each of these until it is closed, at hundreds of times its size.
  EXPECT_EQ(CodeOf(Repeated("[", 2 * kMebibyte)), "yaml.too-large");
  EXPECT_EQ(CodeOf("a: '" + Repeated("x", 2 * kMebibyte) + "'"), "yaml.too-large");
  // Values, not bytes: they may be many, but not any number.
  EXPECT_EQ(CodeOf("a:\n" + Repeated("- \n", kMebibyte)), "");
  EXPECT_EQ(CodeOf("a:\n" + Repeated("- \n", 4 * kMebibyte)), "yaml.too-large");
}

TEST(ParseDocument, StopsAfterAHundredMistakes) {
  Diagnostics diagnostics;
  EXPECT_FALSE(ParseDocument(Repeated("a: 1\n", 10'000), "f", diagnostics).has_value());
  EXPECT_EQ(diagnostics.size(), 100u);
}

// Any text, as a value, in a list and as a key.
TEST(YamlScalar, ReadsBack) {
  for (const char* text :
       {"",     "null", "~",   "-",   "- a",    "-1",         "---",    "...",    "... a",
        "a: b", "a #b", "#",   "&a",  "*a",     "!a",         "|",      ">",      "%a",
        "@",    "`",    "? a", " a ", "a\nb\t", "\"'\\",      "[a, b]", "{a: b}", "a,b",
        "a:",   "a  b", "1e9", "./a", "<<",     "gr\xC3\xB6", "=",      "true",   "-.5"}) {
    const std::string scalar = YamlScalar(text);
    Diagnostics diagnostics;
    const auto root =
        ParseDocument("k: " + scalar + "\nlist: [" + scalar + ", 1]\nkeys:\n  " + scalar + ": 1\n",
                      "f", diagnostics);
    ASSERT_TRUE(root && diagnostics.empty()) << scalar << "\n" << Format(diagnostics);
    const auto& entries = root->tree()->entries;
    ASSERT_EQ(entries.size(), 3u) << scalar;
    EXPECT_EQ(entries[0].value->scalar, text);
    EXPECT_EQ(entries[1].value->items.front()->scalar, text);
    EXPECT_EQ(entries[2].value->entries.front().key, text);
  }
}

}  // namespace
}  // namespace stepcast::scenario
