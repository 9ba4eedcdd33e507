// Runs the commands of each transcript in this folder and compares what they print.
//
// A transcript is a text file: a command line after "$ ", then its stdout, then its stderr with
// "! " before each line, then "[exit N]" unless N is 0. Lines that start with "#" before the first
// command are comments. Wall-clock times ("seconds" under "run") are written as 0.
//
//   bazel test //tests/golden:golden_test
//   tools/golden --update                    # rewrites the transcripts; read the difference

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/cli/command_test.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrompt = "$ stepcast ";
constexpr const char* kFolder = "tests/golden";
constexpr const char* kBinary = "src/cli/stepcast";

bool update = false;

std::vector<std::string> Transcripts() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string Played(const std::string& command) {
  const cli::ShellResult result = cli::Shell(fmt::format("{} {}", kBinary, command));
  std::string text = fmt::format("{}{}\n", kPrompt, command);
  static const std::regex kSeconds(R"("seconds": [-+.0-9e]+)");
  text += std::regex_replace(result.output, kSeconds, "\"seconds\": 0");
  for (const std::string& line : Lines(result.messages)) text += fmt::format("! {}\n", line);
  if (result.status != 0) text += fmt::format("[exit {}]\n", result.status);
  return text;
}

// The path to be rewritten for `path`, below the workspace.
void Rewrite(const std::string& path, const std::string& text) {
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  ASSERT_NE(workspace, nullptr) << "--update needs bazel run: use tools/golden --update";
  std::ofstream(fmt::format("{}/{}", workspace, path), std::ios::binary) << text;
}

constexpr const char* kIfMeant =
    "if the change is meant: tools/golden --update, and an entry under 'Numbers that change' in "
    "CHANGELOG.md";

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, PrintsWhatTheTranscriptHas) {
  const std::string file = fmt::format("{}/{}.txt", kFolder, GetParam());
  const std::string recorded = Read(file);
  std::string played;
  int commands = 0;
  for (const std::string& line : Lines(recorded)) {
    if (line.starts_with(kPrompt)) {
      if (commands > 0) played += "\n";
      played += Played(line.substr(kPrompt.size()));
      ++commands;
    } else if (commands == 0 && line.starts_with("#")) {
      played += line + "\n";
    }
  }
  ASSERT_GT(commands, 0) << file << " has no command";
  if (update) {
    Rewrite(file, played);
  } else {
    EXPECT_EQ(played, recorded) << kIfMeant;
  }
}

// Whether a command prints text for people rather than a file or a document.
bool IsText(const std::string& command) {
  static const std::regex kFiles(
      R"(^(init|schema|completion|manual|serve|model import|topology|calibrate import)\b)"
      R"(|--(json|jsonl|csv|kineto)\b|--print|--dot\b|--program\b)");
  return !std::regex_search(command, kFiles);
}

// Exceptions: stderr has one message per line of any width, words of text to be pasted are not
// broken, and `topology show` draws.
TEST_P(GoldenTest, NoTextIsWiderThanATerminal) {
  constexpr std::size_t kWidth = 80;
  static const std::regex kToPaste(R"(^ +(stepcast|mpirun|tools/|--)|\\$)");
  bool text = false;
  for (const std::string& line : Lines(Read(fmt::format("{}/{}.txt", kFolder, GetParam())))) {
    if (line.starts_with(kPrompt)) {
      text = IsText(line.substr(kPrompt.size()));
    } else if (text && !line.starts_with("! ") && !std::regex_search(line, kToPaste)) {
      const auto width = std::count_if(line.begin(), line.end(), [](unsigned char c) {
        return (c & 0xC0U) != 0x80U;  // not a continuation byte
      });
      EXPECT_LE(static_cast<std::size_t>(width), kWidth) << line;
    }
  }
}

// The README shows a forecast, from the line with the command to the end of the block.
TEST(ReadmeTest, ShowsWhatTheProgramPrints) {
  const std::string readme = Read("README.md");
  const std::size_t begin = readme.find(fmt::format("\n{}", kPrompt)) + 1;
  ASSERT_NE(begin, 0U) << "the README shows no command";
  const std::size_t command = begin + kPrompt.size();
  const std::size_t end = readme.find("\n```", begin) + 1;
  ASSERT_NE(end, 0U);
  const std::string played = Played(readme.substr(command, readme.find('\n', begin) - command));
  if (update) {
    Rewrite("README.md", readme.substr(0, begin) + played + readme.substr(end));
  } else {
    EXPECT_EQ(played, readme.substr(begin, end - begin)) << kIfMeant;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(Transcripts()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace stepcast

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  for (int i = 1; i < count; ++i) {
    if (std::string_view(words[i]) == "--update") stepcast::update = true;
  }
  return RUN_ALL_TESTS();
}
