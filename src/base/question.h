#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// A question is a list of settings. Each setting has a name, a type, a help text and a variable.
// Questions define the options of commands and the keys of requests to `stepcast serve`.
namespace stepcast {

// The variable for the value of a setting. The variable's initial value is the default.
using QuestionVariable = std::variant<bool*, int*, std::optional<int>*,
                                      std::optional<std::int64_t>*, std::optional<double>*,
                                      std::string*, std::vector<std::string>*, std::vector<int>*>;

struct QuestionSetting {
  std::string name;  // "--fewer-nodes", "-o,--output"; for an argument, "SCENARIO"
  QuestionVariable variable;
  std::string type;  // type of the value on help pages; empty: a flag, or an argument
  std::string help;  // empty: the text is in the program's help.txt
  bool required = false;
  bool commas = false;                           // several values in one word, separated by commas
  bool not_negative = false;                     // a number that is at least 0
  bool probability = false;                      // a number from 0 to 1
  std::vector<std::string> words{};              // the allowed values; empty: any value
  std::vector<std::string> offers{};             // suggestions for completion
  std::optional<std::pair<int, int>> range{};    // smallest and largest allowed integer
  std::vector<std::string> excludes{}, needs{};  // names of other settings

  QuestionSetting& Required() { return required = true, *this; }
  QuestionSetting& Commas() { return commas = true, *this; }
  QuestionSetting& NotNegative() { return not_negative = true, *this; }
  QuestionSetting& Probability() { return probability = true, *this; }
  QuestionSetting& OneOf(std::vector<std::string> allowed) {
    return words = std::move(allowed), *this;
  }
  QuestionSetting& Offers(std::vector<std::string> usual) {
    return offers = std::move(usual), *this;
  }
  QuestionSetting& Between(int least, int most) { return range = {least, most}, *this; }
  QuestionSetting& Excludes(std::vector<std::string> others) {
    return excludes = std::move(others), *this;
  }
  QuestionSetting& Needs(std::vector<std::string> others) {
    return needs = std::move(others), *this;
  }

  bool argument() const { return !name.starts_with('-'); }
  // Returns the key of this setting in a request to `serve`, such as "fewer_nodes".
  std::string key() const {
    std::string key = name.substr(argument() ? 0 : 2);
    std::replace(key.begin(), key.end(), '-', '_');
    return key;
  }
};

// The settings of a question. The variables of the settings must outlive this object.
class Question {
 public:
  QuestionSetting& Flag(std::string name, bool* variable, std::string help = "") {
    return Option(std::move(name), variable, "", std::move(help));
  }
  QuestionSetting& Argument(std::string name, QuestionVariable variable, std::string help = "") {
    return Option(std::move(name), variable, "", std::move(help));
  }
  QuestionSetting& Option(std::string name, QuestionVariable variable, std::string type,
                          std::string help = "") {
    return settings_.emplace_back(QuestionSetting{.name = std::move(name),
                                                  .variable = variable,
                                                  .type = std::move(type),
                                                  .help = std::move(help)});
  }

  const std::vector<QuestionSetting>& settings() const { return settings_; }

 private:
  std::vector<QuestionSetting> settings_;
};

}  // namespace stepcast
