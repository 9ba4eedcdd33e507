#include <algorithm>
#include <cctype>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/cli/command.h"
#include "src/cli/command_page.h"
#include "src/cli/commands.h"
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

}  // namespace stepcast::cli
