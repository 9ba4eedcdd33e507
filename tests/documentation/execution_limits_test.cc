// Checks that docs/plans.md lists the plans that `execute` refuses.
//
//   bazel test //tests/documentation:execution_limits_test
//   bazel run //tests/documentation:execution_limits_test -- --update     # rewrites it

#include "src/lowering/execution_limits.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace stepcast {
namespace {

bool update = false;

constexpr const char* kPage = "docs/plans.md";
constexpr std::string_view kHead = "| setting | refused | why |\n|---|---|---|\n";

std::string Sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] += 'A' - 'a';
  return text;
}

std::string Table() {
  std::string table(kHead);
  for (const lowering::ExecutionLimit& limit : lowering::ExecutionLimits()) {
    table += fmt::format("| `{}` | {} | {}. {} |\n", limit.setting, limit.values,
                         Sentence(limit.message), Sentence(limit.hint));
  }
  return table;
}

TEST(ExecutionLimitsPageTest, HasTheListOfTheProgram) {
  std::ifstream in(kPage, std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::size_t begin = page.find(kHead);
  ASSERT_NE(begin, std::string::npos) << kPage << " has no such table";
  const std::size_t end = page.find("\n\n", begin) + 1;
  const std::string table = Table();
  if (!update) {
    EXPECT_EQ(page.substr(begin, end - begin), table)
        << "bazel run //tests/documentation:execution_limits_test -- --update";
    return;
  }
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  ASSERT_NE(workspace, nullptr) << "--update needs bazel run";
  std::ofstream(fmt::format("{}/{}", workspace, kPage), std::ios::binary)
      << page.substr(0, begin) + table + page.substr(end);
}

}  // namespace
}  // namespace stepcast

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  for (int i = 1; i < count; ++i) {
    if (std::string_view(words[i]) == "--update") stepcast::update = true;
  }
  return RUN_ALL_TESTS();
}
