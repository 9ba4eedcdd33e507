#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/cli/outputs.h"

namespace stepcast::cli {
namespace {

using testing::HasSubstr;

TEST(OutputFailureTest, ASlipInANameIsWrongInput) {
  const std::string folder = testing::TempDir() + "/output_failure_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/file") << "text";

  const Outcome nowhere = CannotCreate(folder + "/none/page.html", "cannot create it");
  EXPECT_EQ(nowhere.status, kWrongInput);
  EXPECT_THAT(nowhere.messages, HasSubstr("does not exist: '" + folder + "/none'"));
  EXPECT_THAT(nowhere.messages, HasSubstr("hint: create the folder first, or write another path"));
  // The folder's name belongs to a file.
  EXPECT_EQ(CannotCreate(folder + "/file/page.html", "cannot create it").status, kWrongInput);
  EXPECT_THAT(CannotCreate(folder, "cannot create it").messages, HasSubstr("leads to a folder"));

  const Outcome full = CannotCreate(folder + "/page.html", "the disk is full");
  EXPECT_EQ(full.status, kFailed);
  EXPECT_EQ(full.messages, "stepcast: the disk is full\n");
}

}  // namespace
}  // namespace stepcast::cli
