#pragma once

#include <string>
#include <utility>
#include <vector>

// Commands to paste into a shell: "stepcast simulate my.yaml --set KEY=VALUE ...", with quotes
// around words that need them.
namespace stepcast::report {

struct CommandWords {
  std::vector<std::string> words;  // the words before the settings
  std::vector<std::string> set;    // "KEY=VALUE"

  // The command with these settings added at the end.
  CommandWords With(const std::vector<std::pair<std::string, std::string>>& settings) const;
};

// The command on one line, without a newline.
std::string CommandLine(const CommandWords& command);
// The command indented, in lines continued with backslashes (table.h).
std::string CommandText(const CommandWords& command);

}  // namespace stepcast::report
