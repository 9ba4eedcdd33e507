#pragma once

#include <string>
#include <utility>
#include <vector>

// Commands to paste into a shell: "stepcast simulate my.yaml --set KEY=VALUE ...", with quotes
// around words that a shell would take apart.
namespace stepcast::report {

struct CommandWords {
  std::vector<std::string> words;  // what comes before the settings
  std::vector<std::string> set;    // "KEY=VALUE"

  // Puts settings behind the others.
  CommandWords With(const std::vector<std::pair<std::string, std::string>>& settings) const;
};

// On one line, without its end.
std::string CommandLine(const CommandWords& command);
// Indented, in lines that go on behind a backslash (table.h).
std::string CommandText(const CommandWords& command);

}  // namespace stepcast::report
