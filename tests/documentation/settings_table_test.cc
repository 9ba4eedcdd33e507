// docs/formats.md has the table of data_parallel's settings that the program has.
//
//   bazel test //tests/documentation:settings_table_test
//   bazel run //tests/documentation:settings_table_test -- --update     # writes it anew

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/plan/data_parallel_settings.h"

namespace stepcast {
namespace {

constexpr const char* kDocument = "docs/formats.md";
constexpr std::string_view kBegin = "<!-- settings of data_parallel: begin -->\n";
constexpr std::string_view kEnd = "<!-- settings of data_parallel: end -->";

bool update = false;

// "fsdp2", "reference (stages 1 to 3)", "megatron (stage 1: a note)".
std::string Text(const plan::SettingUse& use) {
  const plan::FrameworkTraits& traits = plan::TraitsOf(use.framework);
  std::string stages;
  if (use.first_stage > traits.first_stage || use.last_stage < traits.last_stage) {
    stages = use.first_stage == use.last_stage
                 ? fmt::format("stage {}", use.first_stage)
                 : fmt::format("stages {} to {}", use.first_stage, use.last_stage);
  }
  const std::string_view note = use.note;
  const char* between = stages.empty() || note.empty() ? "" : ": ";
  const std::string both = stages + between + std::string(note);
  return both.empty() ? traits.name : fmt::format("{} ({})", traits.name, both);
}

std::string Table() {
  std::string table = "| key | value | frameworks | default |\n|---|---|---|---|\n";
  for (const plan::DataParallelSetting& setting : plan::DataParallelSettings()) {
    std::string uses;
    for (const plan::SettingUse& use : setting.uses) {
      if (use.first_stage > use.last_stage) continue;  // taken, without effect
      uses += (uses.empty() ? "" : ", ") + Text(use);
    }
    table += fmt::format("| `{}` | {} | {} | {} |\n", setting.key, setting.values, uses,
                         setting.default_value);
  }
  return table;
}

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(SettingsTable, IsTheProgramsOwn) {
  const std::string document = Read(kDocument);
  const std::size_t begin = document.find(kBegin), end = document.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t content = begin + kBegin.size();
  if (update) {
    const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
    ASSERT_NE(workspace, nullptr) << "--update needs bazel run";
    std::ofstream(fmt::format("{}/{}", workspace, kDocument), std::ios::binary)
        << document.substr(0, content) << Table() << document.substr(end);
    return;
  }
  EXPECT_EQ(document.substr(content, end - content), Table())
      << "bazel run //tests/documentation:settings_table_test -- --update";
}

}  // namespace
}  // namespace stepcast

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  stepcast::update = count > 1 && std::string_view(words[1]) == "--update";
  return RUN_ALL_TESTS();
}
