#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/command_page.h"
#include "src/cli/outcome.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

// Commands, their options and their help pages. CLI11 parses the command line. It takes six seconds
// to include, so only command.cc does.
namespace stepcast::cli {

// An option or a positional argument of a command.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  // The value's name on help pages.
  Option Type(const std::string& name) const;
  Option Required() const;
  Option Excludes(const Option& other) const;
  Option Needs(const Option& other) const;
  Option Between(int least, int most) const;
  Option NotNegative() const;
  Option Probability() const;  // from 0 to 1
  Option OneOf(const std::vector<std::string>& words) const;
  // May be given repeatedly; each occurrence adds one value.
  Option Repeated() const;
  // Values in one word, separated by commas.
  Option Commas() const;

 private:
  CLI::Option* option_;
};

class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  // Adds a subcommand. `footer`: the end of its help page, above the exit statuses.
  Command Add(const std::string& name, const std::string& about, const std::string& footer);
  // Adds a command that only groups subcommands.
  Command AddGroup(const std::string& name, const std::string& about, const std::string& footer);
  // Adds a command that the overview leaves out. A hyphen in its name stands for a typed space.
  Command AddUnlisted(const std::string& name, const std::string& about, const std::string& footer);

  Option AddFlag(const std::string& name, bool& value, const std::string& help);
  // `name`: "--name", or "NAME" for a positional argument.
  Option AddOption(const std::string& name, std::string& value, const std::string& help);
  Option AddOption(const std::string& name, int& value, const std::string& help);
  Option AddOption(const std::string& name, std::optional<int>& value, const std::string& help);
  Option AddOption(const std::string& name, std::optional<std::int64_t>& value,
                   const std::string& help);
  Option AddOption(const std::string& name, std::optional<double>& value, const std::string& help);
  Option AddOption(const std::string& name, std::optional<std::string>& value,
                   const std::string& help);
  Option AddOption(const std::string& name, std::vector<std::string>& value,
                   const std::string& help);
  Option AddOption(const std::string& name, std::vector<int>& value, const std::string& help);
  // An option added earlier.
  Option At(const std::string& name) const;

 private:
  CLI::App* app_;
};

// The value types of output files. Input files have other types.
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kFolder = "FOLDER";

// The program, the root of all commands.
class Program {
 public:
  // `version` returns the output of --version.
  Program(std::function<std::string()> version, const std::string& about,
          const std::string& footer);
  ~Program();

  Command Commands();

  struct Parsed {
    // The requested command, "calibrate import"; empty if none is to be run.
    std::string command;
    // If no command is to be run: help, the version, or mistakes in the words.
    Outcome outcome;
  };
  // Sets the variables of the command's options.
  Parsed Parse(std::vector<std::string> words);

  // All help pages: the program's first, and each command before its subcommands.
  std::vector<CommandPage> Pages() const;

 private:
  std::unique_ptr<CLI::App> app_;
  std::function<std::string()> version_;
};

}  // namespace stepcast::cli
