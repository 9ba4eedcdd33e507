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

// Evaluates shell arithmetic, `A * (b + 1) / 2`, with integers, + - * / %, comparisons and `?:`.
// `value_of` returns a variable's value by its name. Returns none if a variable is unknown, the
// text is no such expression, or the value exceeds 64 bits.
std::optional<std::int64_t> ShellArithmetic(
    std::string_view text,
    const std::function<std::optional<std::int64_t>(const std::string&)>& value_of);

// A shell script split into commands, before expansion.

// A word with its quotes, `"$A"/b`, or an array with its brackets, `A=(1 2)`.
struct ShellWord {
  std::string raw;
  int line = 0;
  int column = 0;
};

// The text between `<<WORD` and WORD.
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
  // The words after `#SBATCH`, as for sbatch's command line.
  std::vector<ShellWord> batch_options{};
};

// Splits a text into commands. Any text is accepted; a text that is no shell script yields
// meaningless commands. Line continuations are resolved. Quotes, comments and the words of compound
// commands (`if`, `[`, `then`) remain words.
ShellScript ReadShell(std::string_view text);

// Follows a shell script without executing anything: assignments, arrays, ${A:-b}, $((A * b)), and
// tests and cases of known variables. Commands are listed with their words. A value that depends on
// anything else is unknown, and names the variable that would determine it.

// A part of a text, with its position.
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
  // Returns the unknown variables of the text.
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
  // The values that the script compares each variable with, or that its loops assign to the
  // variable; for hints.
  std::map<std::string, std::set<std::string>> compared{};
  // For each variable that is set by code which the reader does not follow, the kind of code: "a
  // loop", "a function" or "a case".
  std::map<std::string, std::string> unfollowed{};
};

// Follows a script. `given` are the user's values of variables, which the script's assignments do
// not change; "1" is the first argument.
ShellOutcome FollowShell(const ShellScript& script,
                         const std::map<std::string, std::string>& given);

struct ShellDocuments {
  // The options of the training command, and its context: "launcher.nnodes" of torchrun and others,
  // "env.CUDA_DEVICE_MAX_CONNECTIONS", "sbatch.nodes".
  Document command;
  // The texts of YAML heredocs, each with the number of its first line.
  std::vector<std::pair<std::string, int>> embedded{};
  // The unknown variables that may add options to the command, with their positions.
  std::vector<std::pair<std::string, Location>> open{};
  // The values that the script compares variables with.
  std::map<std::string, std::vector<std::string>> compared{};
  std::map<std::string, std::string> unfollowed{};  // ShellOutcome
  std::vector<std::string> scripts{};               // started by it
};

// Reads the settings in a shell script, or in a list of command-line arguments. The training
// command is the command with the most options. Names have no leading hyphens. `given` are the
// user's values of variables.
ShellDocuments ParseShellSettings(std::string_view text, const std::string& file,
                                  const std::map<std::string, std::string>& given);

// Returns the document with `separator` between the words of option names.
Document Spelled(Document document, char separator);

}  // namespace stepcast::foreign
