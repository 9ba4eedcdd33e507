#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

// Help pages as values: for manual pages, and for shell completion (completion.h).
namespace stepcast::cli {

struct OptionPage {
  std::vector<std::string> names;    // "--set", or of an argument "SCENARIO"
  bool argument = false;             // positional
  std::string type{};                // the value's name, "KEY=VALUE"; empty: no value
  std::vector<std::string> words{};  // the allowed values; empty: any
  std::string help{};
};

struct CommandPage {
  std::string name;  // "calibrate import"; empty: the program itself
  std::string usage{};
  std::string about{};
  std::string footer{};  // examples, explanations and exit statuses
  std::vector<OptionPage> options{};
};

// The first sentence of a text on one line, without its full stop or colon.
inline std::string FirstSentence(std::string_view text) {
  std::string line(text.substr(0, text.find_first_of(".:")));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

// A command's help page as a page for man(1), section 1, in the macros of man(7). `pages`: those of
// all commands, the program's first.
std::string ManualPage(const CommandPage& page, const std::vector<CommandPage>& pages,
                       const std::string& version);

// "stepcast-calibrate-import" for "calibrate import".
std::string ManualName(const std::string& command);

}  // namespace stepcast::cli
