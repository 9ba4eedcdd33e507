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
  std::string name;  // "calibrate import"; the heading of its text in help.txt
  Question question;
  std::function<Outcome()> run;  // empty: the command only groups others
};

// Returns a command with its own options. `describe` adds the options to the command's question,
// and `run` runs the command with their values.
template <typename Options, typename Describe, typename Run>
Command MakeCommand(std::string name, const Describe& describe, const Run& run) {
  const auto options = std::make_shared<Options>();
  Command command{std::move(name), {}, [options, run] { return run(*options); }};
  describe(command.question, *options);
  return command;
}

// The value types (OptionPage::type) of options for output files and folders. Options for input
// files have other value types.
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kFolder = "FOLDER";

// The program with its commands.
class Program {
 public:
  // Creates the program. `version` returns the output of --version.
  explicit Program(std::function<std::string()> version);
  ~Program();

  // Adds a command. Its name begins with the name of the command above it: "calibrate import" is
  // below "calibrate". If the command above takes arguments, the overview omits the new command.
  void Add(Command command);

  struct Parsed {
    const Command* command = nullptr;  // the requested command; null if none is to be run
    // The outcome if no command is run: a help page, the version, or the mistakes in the words.
    Outcome outcome{};
  };
  // Parses the words of a command line, without the program's name. Sets the variables of the
  // requested command's question.
  Parsed Parse(std::vector<std::string> words);

  // Returns all help pages. The program's page comes first, and each command precedes its
  // subcommands.
  std::vector<CommandPage> Pages() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace stepcast::cli
