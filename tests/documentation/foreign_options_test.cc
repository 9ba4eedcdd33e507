// Checks that docs/foreign.md has the program's tables of other programs' options. Options without
// effect on a step are not listed.
//
//   bazel test //tests/documentation:foreign_options_test
//   bazel run //tests/documentation:foreign_options_test -- --update     # rewrites them

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/foreign/frameworks.h"

namespace stepcast::foreign {
namespace {

constexpr const char* kDocument = "docs/foreign.md";
bool update = false;

// A row of options that share a cell is no wider than this.
constexpr std::size_t kCellWidth = 90;
constexpr std::size_t kLineWidth = 120;

// "`a`, `b`, `c`." on lines of at most kLineWidth characters.
std::string Wrapped(const std::vector<std::string>& names) {
  std::string text;
  std::size_t column = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string word = names[i] + (i + 1 < names.size() ? "," : ".");
    if (column > 0 && column + 1 + word.size() > kLineWidth) {
      text += "\n";
      column = 0;
    }
    text += (column > 0 ? " " : "") + word;
    column += (column > 0 ? 1 : 0) + word.size();
  }
  return text + "\n";
}

std::string KeyOf(const Option& option) {
  return option.words.empty() || option.words == "bool"
             ? fmt::format("`{}`", option.key)
             : fmt::format("`{}`: {}", option.key, option.words);
}

std::string TableOfKeys(const Framework& framework) {
  std::string table;
  for (const Option& option : framework.table().options) {
    if (option.effect != Effect::kSets) continue;
    table += fmt::format("| `{}` | {} | {} |\n", option.name, KeyOf(option),
                         option.standard.empty() ? "" : fmt::format("`{}`", option.standard));
  }
  if (table.empty()) return "";
  return "\n| option | key of the scenario | default |\n|---|---|---|\n" + table;
}

std::string ListOfRules(const Framework& framework) {
  std::vector<std::string> names;
  for (const Option& option : framework.table().options) {
    if (option.effect != Effect::kRule) continue;
    names.push_back(option.standard.empty()
                        ? fmt::format("`{}`", option.name)
                        : fmt::format("`{}` (`{}`)", option.name, option.standard));
  }
  if (names.empty()) return "";
  return "\n`init` interprets these options together with other options (defaults in "
         "parentheses):\n" +
         Wrapped(names);
}

// Options with the same consequence share rows.
std::string TableOfGaps(const Framework& framework) {
  struct Row {
    std::string names;
    std::string_view consequence;
  };
  std::vector<Row> rows;
  for (const Option& option : framework.table().options) {
    if (option.effect != Effect::kNotModelled) continue;
    const std::string name = fmt::format("`{}`", option.name);
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& known) {
      return known.consequence == option.consequence &&
             known.names.size() + 2 + name.size() <= kCellWidth;
    });
    if (row == rows.end()) {
      rows.push_back({name, option.consequence});
    } else {
      row->names += ", " + name;
    }
  }
  if (rows.empty()) return "";
  std::string table;
  for (const Row& row : rows) table += fmt::format("| {} | {} |\n", row.names, row.consequence);
  return "\n| option that is not modelled | assumption of the forecast |\n|---|---|\n" + table;
}

std::string TableOf(const Framework& framework) {
  return fmt::format("Defaults are from release or commit {} of the program.\n",
                     framework.release) +
         TableOfKeys(framework) + ListOfRules(framework) + TableOfGaps(framework);
}

std::string Tables() {
  std::string text;
  for (const Framework* framework : Frameworks()) {
    text += fmt::format("\n### {}\n\n{}", framework->form, TableOf(*framework));
  }
  return text + "\n";
}

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(ForeignOptions, AreDocumented) {
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  ASSERT_TRUE(!update || workspace != nullptr) << "--update needs bazel run";
  const std::string path = update ? fmt::format("{}/{}", workspace, kDocument) : kDocument;
  const std::string document = Read(path);
  constexpr std::string_view kBegin = "<!-- options: begin -->\n";
  const std::size_t begin = document.find(kBegin);
  const std::size_t end = document.find("<!-- options: end -->");
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t content = begin + kBegin.size();
  if (update) {
    std::ofstream(path, std::ios::binary)
        << document.substr(0, content) << Tables() << document.substr(end);
    return;
  }
  EXPECT_EQ(document.substr(content, end - content), Tables())
      << "bazel run //tests/documentation:foreign_options_test -- --update";
}

}  // namespace
}  // namespace stepcast::foreign

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  stepcast::foreign::update = count > 1 && std::string_view(words[1]) == "--update";
  return RUN_ALL_TESTS();
}
