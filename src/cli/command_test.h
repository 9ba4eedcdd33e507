#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"

// Helpers for tests of the binary.
namespace stepcast::cli {

struct ShellResult {
  int status = -1;  // exit status; 128 + signal number if a signal ended it
  std::string output;
  std::string messages;  // stderr
};

// Runs a command line with /bin/sh in the working directory. Its stdin is empty.
ShellResult Shell(const std::string& command);

// A test that runs the binary as a user does. Each test has a separate folder for files.
class CommandTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Returns the path of a file in the folder.
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  static ShellResult Run(const std::string& arguments);
  // Returns the names of the folder's files, sorted.
  std::vector<std::string> Files() const;
  static std::string Read(const std::string& path);
  // Returns the text with each run of spaces and line breaks replaced by one space. The positions
  // of line breaks depend on the length of the folder's name.
  static std::string OneLine(const std::string& text);

  static constexpr const char* kBinary = "src/cli/stepcast";
  std::filesystem::path folder_;
};

}  // namespace stepcast::cli
