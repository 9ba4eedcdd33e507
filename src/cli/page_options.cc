#include "src/cli/page_options.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/cli/completion.h"
#include "src/cli/manual_page.h"

namespace stepcast::cli {
namespace {

constexpr const char* kCompletionAbout =
    "Prints a script that makes a shell complete stepcast's commands, options and values when Tab\n"
    "is pressed.";

constexpr const char* kCompletionFooter =
    "The script asks the program itself what may follow, so it need not be made anew for another\n"
    "version. Packages of stepcast have it where shells look.\n"
    "\n"
    "Example:\n"
    "  source <(stepcast completion bash)\n"
    "  stepcast completion zsh > ~/.zfunc/_stepcast\n"
    "  stepcast completion fish > ~/.config/fish/completions/stepcast.fish\n"
    "\n";

constexpr const char* kManualAbout =
    "Prints the page of help of a command as a manual page, or with --list the names of all\n"
    "pages.";

constexpr const char* kManualFooter =
    "Packages of stepcast have all of them: man stepcast-simulate.\n"
    "\n"
    "Example:\n"
    "  stepcast manual simulate | man -l -\n"
    "  stepcast manual calibrate import > stepcast-calibrate-import.1\n"
    "\n";

}  // namespace

void AddCompletion(Command app, CompletionOptions& options) {
  Command command = app.Add("completion", kCompletionAbout, kCompletionFooter);
  command.AddOption("SHELL", options.shell, "bash, fish or zsh")
      .Required()
      .OneOf(CompletionShells());
}

void AddManual(Command app, ManualOptions& options) {
  Command command = app.Add("manual", kManualAbout, kManualFooter);
  command.AddOption("COMMAND", options.command, "The command's words (stepcast itself)");
  command.AddFlag("--list", options.list,
                  "Print the words of each command that has a page, a line each");
}

Outcome PrintCompletion(const CompletionOptions& options) {
  Outcome outcome;
  outcome.output = CompletionScript(options.shell);
  return outcome;
}

Outcome PrintManual(const ManualOptions& options, const std::vector<CommandPage>& pages,
                    const std::string& version) {
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
    return WrongInput({{.code = "command.unknown-command",
                        .location = {"command line", 0, 0},
                        .message = fmt::format("unknown command: {}", Quoted(name)),
                        .hint = "see stepcast manual --list"}});
  }
  outcome.output = ManualPage(*page, pages, version);
  return outcome;
}

}  // namespace stepcast::cli
