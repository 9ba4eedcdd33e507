#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

// What the pages of help say, as values: for manual pages (command_options.h) and for shells that
// complete words (completion.h).
namespace stepcast::cli {

struct OptionPage {
  std::vector<std::string> names;    // "--set", or of an argument "SCENARIO"
  bool argument = false;             // a word at a position
  std::string type{};                // what the value is called, "KEY=VALUE"; empty: takes none
  std::vector<std::string> words{};  // the values that there are; empty: any
  std::string help{};
};

struct CommandPage {
  std::string name;  // "calibrate import"; of the program itself ""
  std::string usage{};
  std::string about{};
  std::string footer{};  // examples, explanations and exit statuses
  std::vector<OptionPage> options{};
};

// The first sentence of a text, without its full stop or colon, on one line.
inline std::string FirstSentence(std::string_view text) {
  std::string line(text.substr(0, text.find_first_of(".:")));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace stepcast::cli
