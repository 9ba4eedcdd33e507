#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "src/base/files.h"

namespace stepcast {
namespace {

std::string Written(const std::string& name, const std::string& content) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(ReadTextFile, ReturnsTheWholeText) {
  Diagnostics diagnostics;
  const std::string text = "key: \xC3\xA9\r\n\tvalue\n";
  EXPECT_EQ(ReadTextFile(Written("good.yaml", text), diagnostics), text);
  EXPECT_TRUE(diagnostics.empty());
}

TEST(ReadTextFile, SaysWhyNot) {
  const std::string large = Written("large.yaml", "");
  std::filesystem::resize_file(large, kLargestInputFile + 1);
  const struct {
    std::string path;
    std::string code;
  } cases[] = {
      {testing::TempDir() + "absent.yaml", "file.not-found"},
      {"", "file.not-found"},
      {std::string("a\0b", 3), "file.not-found"},
      {testing::TempDir(), "file.not-a-file"},
      {"/dev/zero", "file.not-a-file"},
      {large, "file.too-large"},
  };
  for (const auto& bad : cases) {
    Diagnostics diagnostics;
    EXPECT_FALSE(ReadTextFile(bad.path, diagnostics).has_value()) << bad.path;
    ASSERT_EQ(diagnostics.size(), 1u) << bad.path;
    EXPECT_EQ(diagnostics[0].code, bad.code) << bad.path;
    EXPECT_EQ(diagnostics[0].location.file, bad.path);
    EXPECT_EQ(diagnostics[0].location.line, 0);
  }
}

TEST(CheckText, NamesTheFirstByteThatIsNoText) {
  const struct {
    std::string text;
    int line, column;
  } cases[] = {
      {"ab\ncd\xFF", 2, 3},            // no UTF-8 sequence starts with 0xFF
      {std::string("a\0b", 3), 1, 2},  // a control character
      {"\xC3\xA9\xC3", 1, 3},          // cut short; columns count bytes
      {"\xC0\xAF", 1, 1},              // overlong
      {"\xED\xA0\x80", 1, 1},          // a surrogate
      {"\xF4\x90\x80\x80", 1, 1},      // beyond U+10FFFF
      {"\x1b[31m", 1, 1},
      {"a\xC2\x9B", 1, 2},           // a control character of ISO 6429
      {"name: \xE2\x80\xAE", 1, 7},  // RIGHT-TO-LEFT OVERRIDE
  };
  for (const auto& bad : cases) {
    Diagnostics diagnostics;
    EXPECT_FALSE(CheckText(bad.text, "f", diagnostics));
    ASSERT_EQ(diagnostics.size(), 1u);
    EXPECT_EQ(diagnostics[0].code, "file.not-text");
    EXPECT_EQ(diagnostics[0].location.line, bad.line);
    EXPECT_EQ(diagnostics[0].location.column, bad.column);
  }
}

}  // namespace
}  // namespace stepcast
