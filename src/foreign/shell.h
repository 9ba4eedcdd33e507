#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/foreign/setting.h"

namespace stepcast::foreign {

// Evaluates shell arithmetic such as `A * (b + 1) / 2`, with integers, + - * / %, comparisons and
// `?:`. `value_of` returns the value of a variable. Returns none if a variable is unknown, if the
// text is no such expression, or if the value exceeds 64 bits.
std::optional<std::int64_t> ShellArithmetic(
    std::string_view text,
    const std::function<std::optional<std::int64_t>(const std::string&)>& value_of);

// A shell script that is split into commands but not expanded.

// A word with its quotes, such as `"$A"/b`, or an array with its brackets, such as `A=(1 2)`.
struct ShellWord {
  std::string raw;
  int line = 0;
  int column = 0;
};

// The text between `<<WORD` and WORD in a shell script.
struct HereDocument {
  std::string text;
  int line = 0;          // of its first line
  bool expands = false;  // variables in it are replaced, since WORD is not quoted
};

enum class ShellJoint : std::uint8_t { kEnd, kAnd, kOr, kPipe };

struct ShellCommand {
  std::vector<ShellWord> words;
  std::vector<HereDocument> documents{};
  ShellJoint joint = ShellJoint::kEnd;  // the operator after it
};

struct ShellScript {
  std::vector<ShellCommand> commands{};
  // The words after `#SBATCH`, which sbatch treats like words of its command line.
  std::vector<ShellWord> batch_options{};
};

// Splits a text into commands. Any text is accepted; if it is no shell script, the commands are
// meaningless. Line continuations are resolved. Quotes, comments and the words of compound commands
// (`if`, `[`, `then`) remain words.
ShellScript ReadShell(std::string_view text);

// Follows a shell script without executing anything. It follows assignments, arrays, ${A:-b}, $((A
// * b)), and tests and cases of known variables. Commands are listed with their words. If a value
// depends on anything else, it is unknown and names the variable that would determine it.

// A part of a shell text, with its position.
struct ShellPiece {
  std::string text{};
  int line = 0;
  int column = 0;
  std::string unknown{};  // the variable that it depends on; empty: the text is known
  std::string given{};    // the variable, given by the user, that it comes from
};

struct ShellText {
  std::vector<ShellPiece> pieces{};

  std::string Text() const;
  // Returns the unknown variables on which the text depends.
  std::vector<std::string> Unknown() const;
};

struct ShellInvocation {
  std::vector<ShellText> words{};
  std::vector<HereDocument> documents{};  // with known variables replaced
  bool certain = true;                    // false: an undecided test precedes it
};

struct ShellOutcome {
  std::vector<ShellInvocation> invocations{};
  std::map<std::string, ShellText> exported{};  // environment variables
  // The values with which the script compares each variable, or that its loops assign to the
  // variable. For hints.
  std::map<std::string, std::set<std::string>> compared{};
  // The variables that are set by code that the reader does not follow, with the kind of code: "a
  // loop", "a function" or "a case".
  std::map<std::string, std::string> unfollowed{};
};

// Follows a script. `given` are values of variables that the user states; the script's assignments
// do not change them. "1" is the first argument.
ShellOutcome FollowShell(const ShellScript& script,
                         const std::map<std::string, std::string>& given);

struct ShellDocuments {
  // The options of the training command and its context. The context includes "launcher.nnodes" of
  // torchrun and others, "env.CUDA_DEVICE_MAX_CONNECTIONS" and "sbatch.nodes".
  Document command;
  // The texts of heredocs with YAML. Each has the number of its first line.
  std::vector<std::pair<std::string, int>> embedded{};
  // The unknown variables that may add options to the command. Each has its position.
  std::vector<std::pair<std::string, Location>> open{};
  // The values with which the script compares variables.
  std::map<std::string, std::vector<std::string>> compared{};
  std::map<std::string, std::string> unfollowed{};  // ShellOutcome
  std::vector<std::string> scripts{};               // scripts that this script starts
};

// Reads the settings in a shell script, or in a list of command-line arguments. The training
// command is the command with the most options. Names have no leading hyphens. `given` are values
// of variables that the user states.
ShellDocuments ParseShellSettings(std::string_view text, const std::string& file,
                                  const std::map<std::string, std::string>& given);

// Returns the document with `separator` between the words of each option name.
Document Spelled(Document document, char separator);

}  // namespace stepcast::foreign
