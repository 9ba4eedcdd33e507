#pragma once

#include <string>
#include <utility>
#include <vector>

// A command to paste into a shell, such as "stepcast simulate my.yaml --set KEY=VALUE ...". Words
// that need quotes are quoted.
namespace stepcast::report {

struct CommandWords {
  std::vector<std::string> words;  // the words before the settings
  std::vector<std::string> set;    // "KEY=VALUE"

  // Returns the command with these settings appended.
  CommandWords With(const std::vector<std::pair<std::string, std::string>>& settings) const;
};

// Returns the command on one line, without a newline.
std::string CommandLine(const CommandWords& command);
// Returns the command indented, with long lines continued by backslashes (table.h).
std::string CommandText(const CommandWords& command);

}  // namespace stepcast::report
