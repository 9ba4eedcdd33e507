#pragma once

#include <string>
#include <vector>

// What the pages of help say, as values: for manual pages (manual_page.h) and for shells that
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

}  // namespace stepcast::cli
