#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/question.h"
#include "src/cli/command_page.h"
#include "src/cli/outcome.h"

// Commands, their help pages, and the parser of the command line.
namespace stepcast::cli {

struct Command {
  std::string name;  // "calibrate import"; also the heading of the command's text in help.txt
  Question question;
  std::function<Outcome()> run;  // empty: the command only groups subcommands
};

// Returns a command with an `Options` object. `describe` adds the options to the command's
// Question, and `run` runs the command with their values.
template <typename Options, typename Describe, typename Run>
Command MakeCommand(std::string name, const Describe& describe, const Run& run) {
  const auto options = std::make_shared<Options>();
  Command command{std::move(name), {}, [options, run] { return run(*options); }};
  describe(command.question, *options);
  return command;
}

// The value types (OptionPage::type) of options for output files and output folders. Options for
// input files have other value types.
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kFolder = "FOLDER";

// The program and its commands.
class Program {
 public:
  // Creates the program. `version` returns the output of --version.
  explicit Program(std::function<std::string()> version);
  ~Program();

  // Adds a command. The name of a subcommand starts with the name of its parent: "calibrate import"
  // is below "calibrate". If the parent takes arguments, the overview does not list the subcommand.
  void Add(Command command);

  struct Parsed {
    const Command* command = nullptr;  // the requested command; null: do not run a command
    // The outcome if `command` is null: a help page, the version, or mistakes in the command line.
    Outcome outcome{};
  };
  // Parses the words of a command line, without the program's name. Writes the values of options to
  // the variables of the requested command.
  Parsed Parse(std::vector<std::string> words);

  // Returns all help pages, the program's page first. Each command precedes its subcommands.
  std::vector<CommandPage> Pages() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace stepcast::cli
