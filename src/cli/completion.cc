#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "src/base/check.h"
#include "src/cli/command_page.h"
#include "src/cli/help.h"

namespace stepcast::cli {
namespace {

// The page of the command at the start of the words, and the number of words that name it.
std::pair<const CommandPage*, std::size_t> PageOf(const std::vector<CommandPage>& pages,
                                                  const std::vector<std::string>& words) {
  const CommandPage* page = &pages.front();
  std::string name;
  std::size_t used = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    name += (i == 0 ? "" : " ") + words[i];
    const auto found = std::find_if(pages.begin(), pages.end(),
                                    [&](const CommandPage& other) { return other.name == name; });
    if (found == pages.end()) break;
    page = &*found;
    used = i + 1;
  }
  return {page, used};
}

const OptionPage* FindOption(const CommandPage& page, std::string_view name) {
  for (const OptionPage& option : page.options) {
    if (option.argument) continue;
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) {
      return &option;
    }
  }
  return nullptr;
}

using Names = std::map<std::string, std::vector<std::string>>;

class Offer {
 public:
  Offer(std::string_view begin, const Names& names) : begin_(begin), names_(names) {}

  void Add(const std::string& word, const std::string& help) {
    if (word.starts_with(begin_)) text_ += help.empty() ? word + "\n" : word + "\t" + help + "\n";
  }
  // Adds values of an option or argument; `before`: text before the value, "--json=".
  void AddValues(const OptionPage& option, const std::string& before) {
    for (const std::string& word : option.words) Add(before + word, "");
    for (const std::string& word : option.offers) Add(before + word, "");
    const auto names = names_.find(option.type);
    if (names != names_.end()) {
      for (const std::string& name : names->second) Add(before + name, "");
    }
    // A key is not a file name; its value may be one.
    const bool key =
        option.type.starts_with("KEY=") && begin_.find('=', before.size()) == begin_.npos;
    if (option.words.empty() && option.offers.empty() && !key)
      text_ += std::string(kFilesToo) + "\n";
  }
  std::string Take() { return std::move(text_); }

 private:
  const std::string_view begin_;
  const Names& names_;
  std::string text_;
};

}  // namespace

const std::vector<std::string>& CompletionShells() {
  static const std::vector<std::string> shells = {"bash", "fish", "zsh"};
  return shells;
}

std::string CompletionScript(const std::string& shell) {
  if (shell == "bash") return std::string(BashCompletion());
  if (shell == "fish") return std::string(FishCompletion());
  STEPCAST_CHECK(shell == "zsh", "one of CompletionShells");
  return std::string(ZshCompletion());
}

std::string Completions(const std::vector<CommandPage>& pages, const Names& names,
                        const std::vector<std::string>& words) {
  if (words.empty()) return "";
  const std::string& last = words.back();
  const auto [page, used] = PageOf(pages, words);
  Offer offer(last, names);
  // The value of an option, in the next word or after its equals sign.
  if (words.size() >= 2 && words.size() - 1 > used) {
    const OptionPage* option = FindOption(*page, words[words.size() - 2]);
    if (option != nullptr && !option->type.empty()) {
      offer.AddValues(*option, "");
      return offer.Take();
    }
  }
  if (const std::size_t equals = last.find('=');
      last.starts_with("--") && equals != std::string::npos) {
    const OptionPage* option = FindOption(*page, last.substr(0, equals));
    if (option != nullptr) offer.AddValues(*option, last.substr(0, equals + 1));
    return offer.Take();
  }
  if (last.starts_with("-")) {
    for (const OptionPage& option : page->options) {
      if (option.argument) continue;
      for (const std::string& name : option.names) {
        if (name.starts_with("--")) offer.Add(name, option.help);
      }
    }
    return offer.Take();
  }
  // A subcommand, if no other word precedes it.
  if (words.size() - 1 == used) {
    const std::string above = page->name.empty() ? "" : page->name + " ";
    for (const CommandPage& other : pages) {
      if (other.name.size() <= above.size() || !other.name.starts_with(above)) continue;
      const std::string name = other.name.substr(above.size());
      if (name.find(' ') == std::string::npos) offer.Add(name, FirstSentence(other.about));
    }
  }
  for (const OptionPage& option : page->options) {
    if (!option.argument) continue;
    offer.AddValues(option, "");
    break;
  }
  return offer.Take();
}

}  // namespace stepcast::cli
