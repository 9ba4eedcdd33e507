#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/question.h"
#include "src/cli/command_page.h"
#include "src/cli/outcome.h"

// Commands and their help pages. CLI11 parses the command line. It takes six seconds to include, so
// only command.cc does.
namespace stepcast::cli {

struct Command {
  std::string name;  // "calibrate import"; the heading of its text in help.txt
  Question question;
  std::function<Outcome()> run;  // empty: the command only groups others
};

// A command with options of its own. `describe` adds them to the question.
template <typename Options, typename Describe, typename Run>
Command MakeCommand(std::string name, const Describe& describe, const Run& run) {
  const auto options = std::make_shared<Options>();
  Command command{std::move(name), {}, [options, run] { return run(*options); }};
  describe(command.question, *options);
  return command;
}

// The types of output files. Input files have other types.
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kFolder = "FOLDER";

// The program with its commands.
class Program {
 public:
  // `version` returns the output of --version.
  explicit Program(std::function<std::string()> version);
  ~Program();

  // Adds a command after the one whose name it continues. If that one has arguments, the overview
  // leaves the command out.
  void Add(Command command);

  struct Parsed {
    const Command* command = nullptr;  // the requested command; null if none is to be run
    // If no command is to be run: help, the version, or mistakes in the words.
    Outcome outcome{};
  };
  // Sets the variables of the command's question.
  Parsed Parse(std::vector<std::string> words);

  // All help pages: the program's first, and each command before its subcommands.
  std::vector<CommandPage> Pages() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace stepcast::cli
