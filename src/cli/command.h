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

// Commands, their options and their pages of help. CLI11 reads the command line; it takes six
// seconds to include, hence here only command.cc does.
namespace stepcast::cli {

// An option of a command, or a word at a position.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  // What help pages call the value.
  Option Type(const std::string& name) const;
  Option Required() const;
  Option Excludes(const Option& other) const;
  Option Needs(const Option& other) const;
  Option Between(int least, int most) const;
  Option NotNegative() const;
  Option Probability() const;  // from 0 to 1
  Option OneOf(const std::vector<std::string>& words) const;
  // One value each time that the option is given, all of which count.
  Option Repeated() const;
  // Values with commas between, in one word.
  Option Commas() const;

 private:
  CLI::Option* option_;
};

class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  // A command below this one. `footer`: the end of its page, above the exit status.
  Command Add(const std::string& name, const std::string& about, const std::string& footer);
  // One that has others below it and is none by itself.
  Command AddGroup(const std::string& name, const std::string& about, const std::string& footer);
  // One that the overview leaves out. A hyphen of its name stands for the space that is typed.
  Command AddUnlisted(const std::string& name, const std::string& about, const std::string& footer);

  Option AddFlag(const std::string& name, bool& value, const std::string& help);
  // "--name", or a position: "NAME".
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
  // An option that was added before.
  Option At(const std::string& name) const;

 private:
  CLI::App* app_;
};

// The types of options that name what a command writes. Files that it reads have others.
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kFolder = "FOLDER";

// The program, above all commands.
class Program {
 public:
  // `version`: called for --version, gives what is printed.
  Program(std::function<std::string()> version, const std::string& about,
          const std::string& footer);
  ~Program();

  Command Commands();

  struct Parsed {
    // The command that is asked for, "calibrate import"; empty when there is none to run.
    std::string command;
    // Without a command: help, the version, or what is wrong with the words.
    Outcome outcome;
  };
  // Fills the variables of the command's options.
  Parsed Parse(std::vector<std::string> words);

  // What the pages of help say: the program's own first, each command above those below it.
  std::vector<CommandPage> Pages() const;

 private:
  std::unique_ptr<CLI::App> app_;
  std::function<std::string()> version_;
};

}  // namespace stepcast::cli
