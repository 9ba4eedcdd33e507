#include "src/scenario/hub_models.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/scenario/source_names.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {
namespace {

// A list of the table: words separated by spaces.
std::string_view List(std::string_view key) {
  static const YamlTree table = [] {
    Diagnostics mistakes;
    auto parsed = ParseYaml(HubModels(), "table", mistakes, false);
    STEPCAST_CHECK(parsed && mistakes.empty(), "an embedded table is valid YAML");
    return *std::move(parsed);
  }();
  return Child(*table, key)->scalar;
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The words between hyphens and underscores, and between a letter and a digit, without those for
// the kind of training.
std::vector<std::string> WordsOf(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool separator = name[i] == '-' || name[i] == '_';
    if (separator || (i > 0 && is_letter(name[i - 1]) && is_digit(name[i]))) words.emplace_back();
    if (!separator) words.back() += name[i];
  }
  std::erase_if(words, [](const std::string& word) { return HasWord(List("kinds"), word); });
  return words;
}

// Whether the word is a number of parameters: "7b", "1.5b", "135m".
bool IsSize(const std::string& word) {
  return word.size() > 1 && (word.back() == 'b' || word.back() == 'm') &&
         word.find_first_not_of("0123456789.x") == word.size() - 1;
}

}  // namespace

std::optional<std::string> ModelOfTheHub(const std::string& name) {
  // Without an owner, only versions and dates may follow the model's name: gpt2-huge is no model.
  const bool owned = name.find('/') != std::string::npos;
  const auto is_other = [owned](const std::string& word) {
    const bool version = word == "v" || word.find_first_of("0123456789") != std::string::npos;
    return IsSize(word) || HasWord(List("others"), word) || !(owned || version);
  };
  const std::string lower = Lower(name);
  const std::vector<std::string> words =
      WordsOf(std::string_view(lower).substr(lower.rfind('/') + 1));
  std::optional<std::string> found;
  std::size_t longest = 0;
  std::string_view rest = List("hub");
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const std::size_t sign = pair.find('=');
    const std::vector<std::string> own = WordsOf(pair.substr(0, sign));
    if (own.size() <= longest || own.size() > words.size()) continue;
    if (!std::equal(own.begin(), own.end(), words.begin())) continue;
    const bool another =
        std::any_of(words.begin() + static_cast<std::ptrdiff_t>(own.size()), words.end(), is_other);
    if (another) continue;
    found = pair.substr(sign + 1);
    longest = own.size();
  }
  return found;
}

}  // namespace stepcast::scenario
