#include "src/study/output_paths.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast::study {
namespace {

TEST(OutputPathsTest, AnOutputIsNeitherAnInputNorAnotherOutput) {
  const std::string folder = testing::TempDir() + "/output_paths_test";
  std::filesystem::create_directories(folder);
  const std::string scenario = folder + "/scenario.yaml";
  std::ofstream(scenario) << "stepcast: 1\n";

  EXPECT_TRUE(CheckOutputPaths({{"SCENARIO", scenario}},
                               {{"--report", folder + "/a.html"}, {"--trace", folder + "/a.json"}})
                  .empty());
  // Another name of the same file.
  const Diagnostics replaced =
      CheckOutputPaths({{"SCENARIO", scenario}}, {{"--report", folder + "/./scenario.yaml"}});
  ASSERT_EQ(replaced.size(), 1U);
  EXPECT_EQ(replaced[0].code, "command.same-file");
  EXPECT_THAT(replaced[0].message,
              testing::HasSubstr("the paths of --report and SCENARIO lead to the same file"));
  EXPECT_EQ(
      replaced[0].hint,
      "write another path for --report, because it would overwrite the file that SCENARIO reads");
  // Neither file exists yet.
  EXPECT_EQ(
      CheckOutputPaths({}, {{"--report", folder + "/new"}, {"--trace", folder + "/./new"}}).size(),
      1U);
}

}  // namespace
}  // namespace stepcast::study
