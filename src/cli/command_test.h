#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"

// Runs stepcast in tests.
namespace stepcast::cli {

struct ShellResult {
  int status = -1;  // exit status, or 128 + the signal that ended the command
  std::string output;
  std::string messages;  // stderr
};

// Runs a command line with /bin/sh in the working directory, with empty stdin.
ShellResult Shell(const std::string& command);

// A test that runs the program as a user does. Each test has a separate folder for files.
class CommandTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Returns the path of the file `name` in the test's folder.
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  static ShellResult Run(const std::string& arguments);
  // Returns the names of the files in the test's folder, sorted.
  std::vector<std::string> Files() const;
  static std::string Read(const std::string& path);
  // Returns the text with each run of spaces and line breaks replaced by one space, because line
  // breaks depend on the length of the folder's name.
  static std::string OneLine(const std::string& text);

  static constexpr const char* kBinary = "src/cli/stepcast";
  std::filesystem::path folder_;
};

}  // namespace stepcast::cli
