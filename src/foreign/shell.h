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

// Evaluates shell arithmetic such as `A * (b + 1) / 2`: integers, + - * / %, comparisons and `?:`.
// `value_of` returns the value of a variable. Returns none if a variable is unknown, if the text is
// not an arithmetic expression, or if the value exceeds 64 bits.
std::optional<std::int64_t> ShellArithmetic(
    std::string_view text,
    const std::function<std::optional<std::int64_t>(const std::string&)>& value_of);

// A shell script, split into commands without expansion.

// A word with its quotes, such as `"$A"/b`, or an array with its brackets, such as `A=(1 2)`.
struct ShellWord {
  std::string raw;
  int line = 0;
  int column = 0;
};

// The text between `<<WORD` and WORD in a shell script.
struct HereDocument {
  std::string text;
  int line = 0;          // line number of the first line
  bool expands = false;  // variables in `text` are replaced, because WORD is not quoted
};

enum class ShellJoint : std::uint8_t { kEnd, kAnd, kOr, kPipe };

struct ShellCommand {
  std::vector<ShellWord> words;
  std::vector<HereDocument> documents{};
  ShellJoint joint = ShellJoint::kEnd;  // the operator after the command
};

struct ShellScript {
  std::vector<ShellCommand> commands{};
  // The words after `#SBATCH`, which sbatch reads like its command line.
  std::vector<ShellWord> batch_options{};
};

// Splits a text into commands. Accepts any text. Resolves line continuations. Quotes, comments and
// the words of compound commands (`if`, `[`, `then`) remain words.
ShellScript ReadShell(std::string_view text);

// Interprets a shell script without executing commands: assignments, arrays, ${A:-b}, $((A * b)),
// and tests and cases of known variables. The result lists commands with their words. All other
// values are unknown, and have the name of the variable that determines the value.

// A part of a shell text, with its position.
struct ShellPiece {
  std::string text{};
  int line = 0;
  int column = 0;
  std::string unknown{};  // the variable that determines the text, if it is unknown
  std::string given{};    // the user's variable that contains the text
};

struct ShellText {
  std::vector<ShellPiece> pieces{};

  std::string Text() const;
  // Returns the unknown variables in the text.
  std::vector<std::string> Unknown() const;
};

struct ShellInvocation {
  std::vector<ShellText> words{};
  std::vector<HereDocument> documents{};  // heredocs, with known variables replaced
  bool certain = true;                    // false: depends on a test with unknown result
};

struct ShellOutcome {
  std::vector<ShellInvocation> invocations{};
  std::map<std::string, ShellText> exported{};  // exported environment variables
  // For hints: the values to which the script compares each variable, or which its loops assign.
  std::map<std::string, std::set<std::string>> compared{};
  // The variables that uninterpreted code sets, with the kind of code: "a loop", "a function" or "a
  // case".
  std::map<std::string, std::string> unfollowed{};
};

// Interprets a script. `given` are the user's values of variables, which have priority over
// assignments in the script. "1" is the first argument.
ShellOutcome FollowShell(const ShellScript& script,
                         const std::map<std::string, std::string>& given);

struct ShellDocuments {
  // The options of the training command, and settings from its context: "launcher.nnodes" of
  // torchrun and other launchers, "env.CUDA_DEVICE_MAX_CONNECTIONS" and "sbatch.nodes".
  Document command;
  // The texts of heredocs with YAML, each with the number of its first line.
  std::vector<std::pair<std::string, int>> embedded{};
  // The unknown variables that may add options to the command, with their positions.
  std::vector<std::pair<std::string, Location>> open{};
  // The values to which the script compares each variable, by variable.
  std::map<std::string, std::vector<std::string>> compared{};
  std::map<std::string, std::string> unfollowed{};  // see ShellOutcome
  std::vector<std::string> scripts{};               // scripts that this script starts
};

// Reads the settings in a shell script or in a list of command-line arguments. The training command
// is the command with the most options. Names have no leading hyphens. `given` are the user's
// values of variables.
ShellDocuments ParseShellSettings(std::string_view text, const std::string& file,
                                  const std::map<std::string, std::string>& given);

// Returns the document with `separator` between the words of each option's name.
Document Spelled(Document document, char separator);

}  // namespace stepcast::foreign
