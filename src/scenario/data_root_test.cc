#include "src/scenario/data_root.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace stepcast::scenario {
namespace {

namespace fs = std::filesystem;

// Folders "<temporary>/data" (the data root) and "<temporary>/work", each with some files.
class DataRootTest : public testing::Test {
 protected:
  void SetUp() override {
    base_ = testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const char* folder : {"/data/models", "/work/models"}) {
      fs::create_directories(base_ + folder);
    }
    for (const char* file : {"/data/models/both.yaml", "/data/models/shipped.yaml",
                             "/work/models/both.yaml", "/work/mine.yaml"}) {
      std::ofstream(base_ + file) << "a: 1\n";
    }
    setenv("STEPCAST_DATA", (base_ + "/data").c_str(), 1);
  }
  void TearDown() override { unsetenv("STEPCAST_DATA"); }

  std::string base_;
};

TEST_F(DataRootTest, FindsAbsolutePathsThenTheFolderThenTheDataRoot) {
  const std::string work = base_ + "/work";
  EXPECT_EQ(FindInput(work + "/mine.yaml", ""), work + "/mine.yaml");
  EXPECT_EQ(FindInput("mine.yaml", work), work + "/mine.yaml");
  EXPECT_EQ(FindInput("models/both.yaml", work), work + "/models/both.yaml");
  EXPECT_EQ(FindInput("models/shipped.yaml", work), base_ + "/data/models/shipped.yaml");
  EXPECT_EQ(FindInput("models/absent.yaml", work), std::nullopt);
  EXPECT_EQ(FindInput("/models/shipped.yaml", work), std::nullopt);
  EXPECT_EQ(FindInput("", work), std::nullopt);
  EXPECT_EQ(FindInput(std::string("mine.yaml\0x", 11), work), std::nullopt);
}

TEST_F(DataRootTest, SaysWhereItLooked) {
  EXPECT_EQ(PlacesTried("x.yaml", "work"),
            "stepcast looked in 'work' and in the data root '" + base_ + "/data'");
  EXPECT_EQ(PlacesTried("x.yaml", ""),
            "stepcast looked in the working directory and in the data root '" + base_ + "/data'");
  EXPECT_EQ(PlacesTried("/x.yaml", "work"), "'/x.yaml' does not exist");
}

TEST_F(DataRootTest, DoesNotFallBackFromAWrongVariable) {
  setenv("STEPCAST_DATA", "/no/such/folder", 1);
  EXPECT_EQ(DataRoot(), "");
  EXPECT_EQ(FindInput("models/gpt2.yaml", base_), std::nullopt);
  EXPECT_EQ(PlacesTried("x.yaml", "work"),
            "stepcast looked in 'work'; STEPCAST_DATA is not a directory: '/no/such/folder'");
}

// This test's runfiles contain the shipped data, as the program's do.
TEST_F(DataRootTest, IsTheDataTheBinaryWasBuiltWith) {
  for (const char* empty : {"", static_cast<const char*>(nullptr)}) {
    if (empty == nullptr) {
      unsetenv("STEPCAST_DATA");
    } else {
      setenv("STEPCAST_DATA", empty, 1);
    }
    ASSERT_NE(DataRoot(), "");
    EXPECT_TRUE(fs::is_regular_file(DataRoot() + "/models/gpt2.yaml")) << DataRoot();
    // A path inside a build would tell the user nothing.
    EXPECT_EQ(PlacesTried("x.yaml", "work"),
              "stepcast looked in 'work' and in the data folder of its build");
  }
}

// A program run by a test uses the test's runfiles, because its own may be from an earlier build.
TEST_F(DataRootTest, IsTheRunfilesOfTheTestThatRunsIt) {
  unsetenv("STEPCAST_DATA");
  const char* own = std::getenv("RUNFILES_DIR");
  const std::string before = own == nullptr ? "" : own;
  for (const char* folder : {"models", "topologies", "calibration"}) {
    fs::create_directories(base_ + "/runfiles/stepcast/" + folder);
  }
  setenv("RUNFILES_DIR", (base_ + "/runfiles").c_str(), 1);
  EXPECT_EQ(DataRoot(), base_ + "/runfiles/stepcast");
  // One that holds no data is another program's.
  setenv("RUNFILES_DIR", base_.c_str(), 1);
  EXPECT_TRUE(fs::is_regular_file(DataRoot() + "/models/gpt2.yaml")) << DataRoot();
  setenv("RUNFILES_DIR", before.c_str(), 1);
  if (own == nullptr) unsetenv("RUNFILES_DIR");
}

TEST(FolderOf, IsWhatStandsBeforeTheLastSlash) {
  EXPECT_EQ(FolderOf("a/b/c.yaml"), "a/b");
  EXPECT_EQ(FolderOf("/c.yaml"), "/");
  EXPECT_EQ(FolderOf("c.yaml"), "");
}

}  // namespace
}  // namespace stepcast::scenario
