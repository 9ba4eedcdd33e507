#include "src/cli/command_test.h"

#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fmt/format.h"
#include "src/base/check.h"

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

namespace {

std::string ReadAndRemove(const std::string& path) {
  std::string text;
  {
    std::ifstream in(path, std::ios::binary);
    STEPCAST_CHECK(in.is_open(), "the shell has written its output");
    text.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  std::filesystem::remove(path);
  return text;
}

}  // namespace

ShellResult Shell(const std::string& command) {
  // Bazel sets this folder for `bazel run` too, but creates it only for `bazel test`.
  const char* const given = std::getenv("TEST_TMPDIR");
  const bool usable = given != nullptr && std::filesystem::is_directory(given);
  // A unique folder: in /tmp, other users could place links at predictable names.
  std::string folder = fmt::format(
      "{}/shell.XXXXXX", usable ? given : std::filesystem::temp_directory_path().string());
  STEPCAST_CHECK(::mkdtemp(folder.data()) != nullptr, "a temporary folder can be made");
  const std::string output = folder + "/out";
  const std::string messages = folder + "/err";
  const int status =
      std::system(fmt::format("export STEPCAST_PROGRESS=0\n{{ {}\n}} </dev/null >'{}' 2>'{}'",
                              command, output, messages)
                      .c_str());
  STEPCAST_CHECK(status != -1, "a shell can be started");
  ShellResult result;
  result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.output = ReadAndRemove(output);
  result.messages = ReadAndRemove(messages);
  std::filesystem::remove(folder);
  return result;
}

}  // namespace stepcast::cli
