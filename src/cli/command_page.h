#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

// Help pages as data. Manual pages and shell completions are made from them (commands.h).
namespace stepcast::cli {

struct OptionPage {
  std::vector<std::string> names;     // "--set"; for an argument, "SCENARIO"
  bool argument = false;              // true: a positional argument
  std::string type{};                 // type of the value, "KEY=VALUE"; empty: no value
  std::vector<std::string> words{};   // the allowed values; empty: any value
  std::vector<std::string> offers{};  // completion suggests these; other values are allowed
  std::string help{};
};

struct CommandPage {
  std::string name;  // "calibrate import"; empty: the program itself
  std::string usage{};
  std::string about{};
  std::string footer{};  // examples, explanations and exit statuses
  std::vector<OptionPage> options{};
};

// Returns TEXT of the line "NAME: TEXT" below a heading of help.txt or words.txt. Indented lines
// continue the text. Returns an empty string if there is no line for `name`.
std::string HelpEntry(std::string_view heading, std::string_view name);

// Returns the first sentence of a text on one line, without the final period or colon.
inline std::string FirstSentence(std::string_view text) {
  std::string line(text.substr(0, text.find_first_of(".:")));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

inline constexpr const char* kComplete = "complete";

}  // namespace stepcast::cli
