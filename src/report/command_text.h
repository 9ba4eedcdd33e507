#pragma once

#include <string>
#include <utility>
#include <vector>

// A command that can be pasted into a shell, such as "stepcast simulate my.yaml --set KEY=VALUE
// ...". Words are quoted if necessary.
namespace stepcast::report {

struct CommandWords {
  std::vector<std::string> words;  // the words before the settings
  std::vector<std::string> set;    // "KEY=VALUE"

  // Returns the command with these settings appended.
  CommandWords With(const std::vector<std::pair<std::string, std::string>>& settings) const;
};

// Returns the command on one line, without a newline.
std::string CommandLine(const CommandWords& command);
// Returns the command as indented text, with long lines continued after backslashes (table.h).
std::string CommandText(const CommandWords& command);

}  // namespace stepcast::report
