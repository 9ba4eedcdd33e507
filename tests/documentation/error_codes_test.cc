// Checks that docs/errors/README.md and the program have the same diagnostic codes.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDocument = "docs/errors/README.md";

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::set<std::string> Matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

// The workspace that the document's runfile links into. There are too many sources to declare, so
// this test is tagged `external` and never taken from a cache.
fs::path Workspace() { return fs::canonical(kDocument).parent_path().parent_path().parent_path(); }

std::set<std::string> DocumentedCodes() {
  return Matches(ReadAll(kDocument), "\\| `([a-z]+\\.[a-z-]+)` \\|");
}

// Literals in the place of a Diagnostic's code, and literals in the form of a code whose first word
// occurs in documented codes.
std::set<std::string> UsedCodes(const std::set<std::string>& documented) {
  std::set<std::string> families;
  for (const std::string& code : documented) families.insert(code.substr(0, code.find('.')));
  // Keys of input files, and file names, that look like codes.
  const std::set<std::string> keys = {"model.norm", "model.layers", "plan.json", "launch.sh",
                                      "scenario.yaml"};
  std::set<std::string> used;
  for (const auto& entry : fs::recursive_directory_iterator(Workspace() / "src")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".cc" || name.ends_with("_test.cc")) continue;
    const std::string text = ReadAll(entry.path());
    for (const std::string& code : Matches(text,
                                           "(?:Diagnostic\\{|(?:[dD]iagnostics|mistakes)_?\\.push_"
                                           "back\\(\\s*\\{|Diagnostics\\{\\{)"
                                           "\\s*\"([a-z]+\\.[a-z-]+)\"")) {
      used.insert(code);
    }
    for (const std::string& literal : Matches(text, "\"([a-z]+\\.[a-z-]+)\"")) {
      const std::string first = literal.substr(0, literal.find('.'));
      // In this folder, options of other programs and scenario keys look like codes.
      const bool options = entry.path().parent_path().filename() == "foreign";
      const bool family = options ? first == "foreign" : families.count(first) > 0;
      if (family && keys.count(literal) == 0) used.insert(literal);
    }
  }
  return used;
}

TEST(ErrorCodes, AreAllDocumented) {
  const std::set<std::string> documented = DocumentedCodes();
  const std::set<std::string> used = UsedCodes(documented);
  ASSERT_GT(used.size(), 30u) << "the sources were not found at " << Workspace();
  for (const std::string& code : used) {
    EXPECT_EQ(documented.count(code), 1u) << code << " is not in " << kDocument;
  }
}

TEST(ErrorCodes, OfTheDocumentExist) {
  const std::set<std::string> documented = DocumentedCodes();
  const std::set<std::string> used = UsedCodes(documented);
  for (const std::string& code : documented) {
    EXPECT_EQ(used.count(code), 1u) << kDocument << " has a code that nothing uses: " << code;
  }
}

}  // namespace
}  // namespace stepcast
