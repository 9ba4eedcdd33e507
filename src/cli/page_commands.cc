#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/cli/command.h"
#include "src/cli/command_page.h"
#include "src/cli/commands.h"
#include "src/cli/help.h"
#include "src/cli/version.h"
#include "src/report/table.h"

namespace stepcast::cli {
namespace {

// Escapes text for roff: backslashes, hyphens (which would become another character), and a dot or
// apostrophe at the start of a line, which would begin a request.
std::string Roff(std::string_view text) {
  std::string escaped;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
    line_start = c == '\n';
  }
  return escaped;
}

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Paragraphs are filled. Indented lines, such as commands, stay as they are. A line that ends in a
// colon above such lines is a heading.
std::string Paragraphs(std::string_view text) {
  const std::vector<std::string_view> lines = report::LinesOf(text);
  std::string roff;
  bool kept = false;
  bool apart = false;  // an empty line stands before
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const bool indented = line.starts_with(' ');
    if (kept && !indented) roff += ".EE\n";
    const bool heading = line.ends_with(':') && i + 1 < lines.size() &&
                         lines[i + 1].starts_with(' ') && (i == 0 || lines[i - 1].empty()) &&
                         line.find(',') == std::string_view::npos;
    if (apart && !line.empty() && !heading) roff += ".PP\n";
    if (!kept && indented) roff += ".EX\n";
    kept = indented;
    apart = line.empty();
    if (heading) {
      roff += fmt::format(".SH {}\n", Roff(Upper(std::string(line.substr(0, line.size() - 1)))));
    } else if (!line.empty()) {
      roff += Roff(line) + "\n";
    }
  }
  if (kept) roff += ".EE\n";
  return roff;
}

std::string OptionsOf(const CommandPage& page, bool arguments) {
  std::string roff;
  for (const OptionPage& option : page.options) {
    if (option.argument != arguments) continue;
    roff += fmt::format(".TP\n.B {}\n", Roff(fmt::format("{}", fmt::join(option.names, ", "))));
    // The value's name follows the option's in italics.
    if (!arguments && !option.type.empty()) {
      roff.pop_back();
      roff += fmt::format(" \\fI{}\\fR\n", Roff(option.type));
    }
    roff += Roff(option.help) + "\n";
    if (!option.words.empty()) {
      roff += Roff(fmt::format("One of {}.", fmt::join(option.words, ", "))) + "\n";
    }
  }
  return roff;
}

// The subcommands of the page's command; for the program, all commands.
std::string CommandsOf(const CommandPage& page, const std::vector<CommandPage>& pages) {
  std::string roff;
  const std::string above = page.name.empty() ? "" : page.name + " ";
  for (const CommandPage& other : pages) {
    if (other.name.size() <= above.size() || !other.name.starts_with(above)) continue;
    roff += fmt::format(".TP\n.BR {} (1)\n{}\n", Roff(ManualName(other.name)),
                        Roff(FirstSentence(other.about)));
  }
  return roff;
}

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

std::string ManualName(const std::string& command) {
  std::string name = command.empty() ? "stepcast" : "stepcast-" + command;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string ManualPage(const CommandPage& page, const std::vector<CommandPage>& pages,
                       const std::string& version) {
  const std::string name = ManualName(page.name);
  std::string roff =
      fmt::format(".TH {} 1 \"\" \"stepcast {}\" \"stepcast\"\n", Roff(Upper(name)), version);
  // The NAME section needs the name, a hyphen and one line.
  std::string line = FirstSentence(page.about);
  if (!line.empty()) line.front() = static_cast<char>(std::tolower(line.front()));
  roff += fmt::format(".SH NAME\n{} \\- {}\n", Roff(name), Roff(line));
  roff += fmt::format(".SH SYNOPSIS\n.B {}\n", Roff(page.usage));
  roff += ".SH DESCRIPTION\n" + Paragraphs(page.about);
  const auto section = [&](const char* heading, const std::string& content) {
    if (!content.empty()) roff += fmt::format(".SH {}\n{}", heading, content);
  };
  section("ARGUMENTS", OptionsOf(page, true));
  section("OPTIONS", OptionsOf(page, false));
  section("COMMANDS", CommandsOf(page, pages));
  // A footer begins with its own heading, or with sentences.
  const std::string footer = Paragraphs(page.footer);
  if (!footer.starts_with(".SH")) roff += ".SH NOTES\n";
  roff += footer;
  if (!page.name.empty()) roff += ".SH SEE ALSO\n.BR stepcast (1)\n";
  return roff;
}

namespace {

struct CompletionOptions {
  std::string shell;
};

Outcome PrintCompletion(const CompletionOptions& options) {
  return {kDone, CompletionScript(options.shell), ""};
}

struct ManualOptions {
  std::vector<std::string> command;  // "calibrate", "import"; empty: the program itself
  bool list = false;                 // print the names of all pages instead of one page
};

// Errors: command.unknown-command.
Outcome PrintManual(const ManualOptions& options, const std::vector<CommandPage>& pages) {
  Outcome outcome;
  if (options.list) {
    for (const CommandPage& page : pages) {
      if (!page.name.empty()) outcome.output += page.name + "\n";
    }
    return outcome;
  }
  const std::string name = fmt::format("{}", fmt::join(options.command, " "));
  const auto page = std::find_if(pages.begin(), pages.end(),
                                 [&](const CommandPage& other) { return other.name == name; });
  if (page == pages.end()) {
    return WrongInput("command.unknown-command", "command line",
                      fmt::format("unknown command: {}", Quoted(name)),
                      "write a command from the list that stepcast manual --list prints");
  }
  outcome.output = ManualPage(*page, pages, kVersion);
  return outcome;
}

void DescribeCompletion(Question& question, CompletionOptions& options) {
  question.Argument("SHELL", &options.shell).Required().OneOf(CompletionShells());
}

void DescribeManual(Question& question, ManualOptions& options) {
  question.Argument("COMMAND", &options.command);
  question.Flag("--list", &options.list);
}

}  // namespace

Command CompletionCommand() {
  return MakeCommand<CompletionOptions>("completion", DescribeCompletion, PrintCompletion);
}

Command ManualCommand(std::function<std::vector<CommandPage>()> pages) {
  return MakeCommand<ManualOptions>(
      "manual", DescribeManual,
      [pages](const ManualOptions& options) { return PrintManual(options, pages()); });
}

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
