#pragma once

#include <string>

// For tests of the binary.
namespace stepcast::cli {

struct ShellResult {
  int status = -1;  // exit status; 128 + signal number if a signal ended it
  std::string output;
  std::string messages;  // stderr
};

// Runs a command line with /bin/sh in the working directory, with empty stdin.
ShellResult Shell(const std::string& command);

}  // namespace stepcast::cli
