// Checks that the pages of docs/formats about scenario sections have the program's tables of
// settings, and that docs/planning.md has the table of searched settings.
//
//   bazel test //tests/documentation:settings_table_test
//   bazel run //tests/documentation:settings_table_test -- --update     # rewrites them

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/plan/settings.h"
#include "src/planner/search_table.h"

namespace stepcast {
namespace {

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

std::string Frameworks(std::span<const plan::SettingUse> uses) {
  std::string text;
  for (const plan::SettingUse& use : uses) {
    if (use.first_stage > use.last_stage) continue;  // taken, without effect
    text += (text.empty() ? "" : ", ") + Text(use);
  }
  return text.empty() ? "all" : text;
}

// A bar within a cell would begin a new cell.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? "\\|" : std::string(1, c);
  return cell;
}

std::string Table(const auto& settings) {
  std::string table = "| key | value | frameworks | default |\n|---|---|---|---|\n";
  for (const auto& setting : settings) {
    table += fmt::format("| `{}` | {} | {} | {} |\n", setting.key, Cell(setting.values),
                         Frameworks(setting.uses.said()), setting.default_value);
  }
  return table;
}

// TraitsOf decides which frameworks have an axis, and the values show it.
std::string TableOfAxes() {
  std::string table = "| key | value | default |\n|---|---|---|\n";
  for (const plan::ParallelismSetting& setting : plan::ParallelismSettings()) {
    table += fmt::format("| `{}` | {} | {} |\n", setting.key, Cell(setting.values),
                         setting.default_value);
  }
  return table;
}

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string TableOfSearch() {
  std::string table =
      "| key | values that are tried | frameworks | only for |\n|---|---|---|---|\n";
  for (const planner::SearchRow& row : planner::SearchTable()) {
    table += fmt::format("| `{}` | {} | {} | {} |\n", row.key, Cell(row.tried),
                         planner::FrameworksText(row.uses), Cell(row.where));
  }
  return table;
}

// `page`: path below docs/, without its extension.
void ExpectTable(const char* section, const char* page, const std::string& table) {
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  ASSERT_TRUE(!update || workspace != nullptr) << "--update needs bazel run";
  const std::string path =
      fmt::format("{}docs/{}.md", update ? fmt::format("{}/", workspace) : "", page);
  const std::string document = Read(path);
  const std::string begin_line = fmt::format("<!-- settings of {}: begin -->\n", section);
  const std::size_t begin = document.find(begin_line);
  const std::size_t end = document.find(fmt::format("<!-- settings of {}: end -->", section));
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t content = begin + begin_line.size();
  if (update) {
    std::ofstream(path, std::ios::binary)
        << document.substr(0, content) << table << document.substr(end);
    return;
  }
  EXPECT_EQ(document.substr(content, end - content), table)
      << "bazel run //tests/documentation:settings_table_test -- --update";
}

TEST(SettingsTable, OfTraining) {
  ExpectTable("training", "formats/training", Table(plan::TrainingSettings()));
}
TEST(SettingsTable, OfParallelism) {
  ExpectTable("parallelism", "formats/parallelism", TableOfAxes());
}
TEST(SettingsTable, OfExperts) {
  ExpectTable("experts", "formats/experts", Table(plan::MixtureSettings()));
}
TEST(SettingsTable, OfDataParallel) {
  ExpectTable("data_parallel", "formats/data-parallel", Table(plan::DataParallelSettings()));
}
TEST(SettingsTable, OfSearches) { ExpectTable("a search", "planning", TableOfSearch()); }

}  // namespace
}  // namespace stepcast

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  stepcast::update = count > 1 && std::string_view(words[1]) == "--update";
  return RUN_ALL_TESTS();
}
