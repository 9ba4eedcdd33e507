// Checks that the tables of settings in docs/formats have all settings, in order, with their
// frameworks and with texts, and that docs/planning.md has the table of searched settings.
//
//   bazel test //tests/documentation:settings_table_test
//   bazel run //tests/documentation:settings_table_test -- --update
//
// --update rewrites the tables. It keeps the texts.

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/plan/settings.h"
#include "src/planner/search_table.h"
#include "src/scenario/setting_texts.h"

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

// `of_frameworks`: whether the table has a column of frameworks. TraitsOf decides which frameworks
// have an axis, and the values of axes show it.
std::string Table(const char* section, const auto& settings, bool of_frameworks = true) {
  std::string table = of_frameworks ? "| key | value | frameworks | default |\n|---|---|---|---|\n"
                                    : "| key | value | default |\n|---|---|---|\n";
  for (const auto& setting : settings) {
    const scenario::SettingText text = scenario::SettingTextOf(section, setting.key);
    EXPECT_TRUE(update || (!text.values.empty() && !text.default_value.empty()))
        << "write the values and the default of " << setting.key;
    table += fmt::format("| `{}` | {} | {}{} |\n", setting.key, Cell(text.values),
                         of_frameworks ? Frameworks(setting.uses.said()) + " | " : "",
                         Cell(text.default_value));
  }
  return table;
}

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The frameworks and stages of a row: "fsdp2, reference at stages 1 to 3", or "all".
std::string FrameworksOfSearch(std::span<const plan::SettingUse> uses) {
  std::string text;
  for (const plan::SettingUse& use : uses) {
    const plan::FrameworkTraits& traits = plan::TraitsOf(use.framework);
    if (!text.empty()) text += ", ";
    text += traits.name;
    if (use.first_stage <= traits.first_stage && use.last_stage >= traits.last_stage) continue;
    text += use.first_stage == use.last_stage
                ? fmt::format(" at stage {}", use.first_stage)
                : fmt::format(" at stages {} to {}", use.first_stage, use.last_stage);
  }
  return text.empty() ? "all" : text;
}

// Takes the texts of the values and the conditions from the table in the document. The rows of one
// key are in the order of SearchTable.
std::string TableOfSearch(const std::string& document) {
  std::string table =
      "| key | values that are tried | frameworks | only for |\n|---|---|---|---|\n";
  std::map<std::string, std::size_t> begins;  // by key: where its next row may begin
  for (const planner::SearchRow& row : planner::SearchTable()) {
    const std::string frameworks = FrameworksOfSearch(row.uses.said());
    std::size_t& begin =
        begins.try_emplace(row.key, document.find("a search: begin")).first->second;
    begin = document.find(fmt::format("\n| `{}` | ", row.key), begin);
    std::string tried, where;
    if (begin != std::string::npos) {
      const std::size_t first = document.find(" | ", ++begin) + 3;
      const std::size_t second = document.find(" | ", first);
      const std::size_t third = document.find(" | ", second + 3) + 3;
      tried = document.substr(first, second - first);
      where = document.substr(third, document.find(" |\n", third - 1) - third);
    }
    EXPECT_TRUE(update || !tried.empty()) << "write the values of " << row.key;
    table += fmt::format("| `{}` | {} | {} | {} |\n", row.key, tried, frameworks, where);
  }
  return table;
}

// `page`: path below docs/, without its extension. `table_of` returns the table for a document.
void ExpectTable(const char* section, const char* page,
                 const std::function<std::string(const std::string&)>& table_of) {
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  ASSERT_TRUE(!update || workspace != nullptr) << "--update needs bazel run";
  const std::string path =
      fmt::format("{}docs/{}.md", update ? fmt::format("{}/", workspace) : "", page);
  const std::string document = Read(path);
  const std::string table = table_of(document);
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
  ExpectTable("training", "formats/training",
              [](const auto&) { return Table("training", plan::TrainingSettings()); });
}
TEST(SettingsTable, OfParallelism) {
  ExpectTable("parallelism", "formats/parallelism",
              [](const auto&) { return Table("parallelism", plan::ParallelismSettings(), false); });
}
TEST(SettingsTable, OfExperts) {
  ExpectTable("experts", "formats/experts",
              [](const auto&) { return Table("experts", plan::MixtureSettings()); });
}
TEST(SettingsTable, OfDataParallel) {
  ExpectTable("data_parallel", "formats/data-parallel",
              [](const auto&) { return Table("data_parallel", plan::DataParallelSettings()); });
}
TEST(SettingsTable, OfSearches) { ExpectTable("a search", "planning", TableOfSearch); }

}  // namespace
}  // namespace stepcast

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  stepcast::update = count > 1 && std::string_view(words[1]) == "--update";
  return RUN_ALL_TESTS();
}
