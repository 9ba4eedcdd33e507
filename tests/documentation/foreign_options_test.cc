// Checks that docs/foreign.md has the program's tables of other programs' options.
//
//   bazel test //tests/documentation:foreign_options_test
//   bazel run //tests/documentation:foreign_options_test -- --update     # rewrites them

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/foreign/frameworks.h"

namespace stepcast::foreign {
namespace {

constexpr const char* kDocument = "docs/foreign.md";
bool update = false;

std::string MeaningOf(const Option& option) {
  switch (option.effect) {
    case Effect::kSets:
      return option.words.empty() || option.words == "bool"
                 ? fmt::format("`{}`", option.key)
                 : fmt::format("`{}`: {}", option.key, option.words);
    case Effect::kRule:
      return "read together with others";
    case Effect::kNotModelled:
      return fmt::format("not modelled: {}", option.consequence);
    case Effect::kNone:
      break;
  }
  return "";
}

std::string TableOf(const Framework& framework) {
  std::string table =
      fmt::format("Defaults: those of {}.\n\n| option | scenario | default |\n|---|---|---|\n",
                  framework.release);
  for (const Option& option : framework.options) {
    table += fmt::format("| `{}` | {} | {} |\n", option.name, MeaningOf(option),
                         option.standard.empty() ? "" : fmt::format("`{}`", option.standard));
  }
  std::string without_effect;
  std::istringstream names{std::string(framework.without_effect)};
  for (std::string name; names >> name;) {
    without_effect += fmt::format("{}`{}`", without_effect.empty() ? "" : ", ", name);
  }
  return table + fmt::format("\nWithout effect on a step: {}.\n", without_effect);
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
