#include "src/report/command_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "src/report/table.h"

namespace stepcast::report {
namespace {

std::string ShellWord(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_./=:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace

CommandWords CommandWords::With(
    const std::vector<std::pair<std::string, std::string>>& settings) const {
  CommandWords command = *this;
  for (const auto& [key, value] : settings) command.set.push_back(key + "=" + value);
  return command;
}

std::string CommandLine(const CommandWords& command) {
  std::string line;
  for (const std::string& word : command.words) line += (line.empty() ? "" : " ") + ShellWord(word);
  for (auto setting = command.set.begin(); setting != command.set.end(); ++setting) {
    // Only the last setting of a key takes effect.
    const std::string key = setting->substr(0, setting->find('=') + 1);
    const bool replaced =
        std::any_of(setting + 1, command.set.end(),
                    [&](const std::string& later) { return later.starts_with(key); });
    if (!replaced) line += " --set " + ShellWord(*setting);
  }
  return line;
}

std::string CommandText(const CommandWords& command) {
  return Wrapped("  " + CommandLine(command) + "\n");
}

}  // namespace stepcast::report
