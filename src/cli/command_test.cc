#include "src/cli/command_test.h"

#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "fmt/format.h"

namespace stepcast::cli {

void CommandTest::SetUp() {
  std::string pattern = testing::TempDir() + "/command_test.XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
}

ShellResult CommandTest::Run(const std::string& arguments) {
  return Shell(fmt::format("{} {}", kBinary, arguments));
}

std::vector<std::string> CommandTest::Files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string CommandTest::Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string CommandTest::OneLine(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  return line;
}

}  // namespace stepcast::cli
