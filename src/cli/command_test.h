#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/cli/shell.h"

namespace stepcast::cli {

// Runs the binary like a user, with a folder for each test's files.
class CommandTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A path in the folder.
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  static ShellResult Run(const std::string& arguments);
  // Names of the folder's files, sorted.
  std::vector<std::string> Files() const;
  static std::string Read(const std::string& path);
  // A text without line breaks, whose positions depend on the length of the folder's name.
  static std::string OneLine(const std::string& text);

  static constexpr const char* kBinary = "src/cli/stepcast";
  std::filesystem::path folder_;
};

}  // namespace stepcast::cli
