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

// The value of a shell's arithmetic, `A * (b + 1) / 2`, with whole numbers, + - * / %, comparisons
// and `?:`. `value_of` says what a variable is; it is asked with the name alone. Nothing where a
// variable is not known, the text is no such expression, or the value leaves 64 bits.
std::optional<std::int64_t> ShellArithmetic(
    std::string_view text,
    const std::function<std::optional<std::int64_t>(const std::string&)>& value_of);

// A shell script as commands, before anything in them is expanded.

// A word with its quotes, `"$A"/b`, or an array with its brackets, `A=(1 2)`.
struct ShellWord {
  std::string raw;
  int line = 0;
  int column = 0;
};

// Text between `<<WORD` and WORD.
struct HereDocument {
  std::string text;
  int line = 0;          // of its first line
  bool expands = false;  // variables in it are replaced: WORD stood without quotes
};

enum class ShellJoint : std::uint8_t { kEnd, kAnd, kOr, kPipe };

struct ShellCommand {
  std::vector<ShellWord> words;
  std::vector<HereDocument> documents{};
  ShellJoint joint = ShellJoint::kEnd;  // what stands behind it
};

struct ShellScript {
  std::vector<ShellCommand> commands{};
  // Words behind `#SBATCH`, as one would write them on sbatch's command line.
  std::vector<ShellWord> batch_options{};
};

// Takes any text: what is no shell script gives commands that mean nothing. Line continuations,
// quotes, comments and the words of compound commands (`if`, `[`, `then`) are words as they stand.
ShellScript ReadShell(std::string_view text);

// What a shell script puts together, without executing anything: assignments, arrays, ${A:-b},
// $((A * b)), and tests and cases of variables that are known are followed; commands are listed
// with their words. A value that depends on anything else is unknown, and names the variable that
// would say it.

// A part of a text, with the place where it is written.
struct ShellPiece {
  std::string text{};
  int line = 0;
  int column = 0;
  std::string unknown{};  // the variable that the part depends on; empty: the text is known
  std::string given{};    // the variable whose text the user states
};

struct ShellText {
  std::vector<ShellPiece> pieces{};

  std::string Text() const;
  // The variables that it depends on.
  std::vector<std::string> Unknown() const;
};

struct ShellInvocation {
  std::vector<ShellText> words{};
  std::vector<HereDocument> documents{};  // with their variables replaced, as far as known
  bool certain = true;                    // false: a test that cannot be decided stands before it
};

struct ShellOutcome {
  std::vector<ShellInvocation> invocations{};
  std::map<std::string, ShellText> exported{};  // variables of the environment
  // The values that the script compares each variable with, or that its loops give it; hints name
  // them.
  std::map<std::string, std::set<std::string>> compared{};
  // For each variable that the reader cannot follow, the kind of code that sets it: "a loop",
  // "a function" or "a case".
  std::map<std::string, std::string> unfollowed{};
};

// `given`: variables as the user states them, which the script's own assignments do not change;
// "1" is the first argument.
ShellOutcome FollowShell(const ShellScript& script,
                         const std::map<std::string, std::string>& given);

struct ShellDocuments {
  // The options of the training command, and around it: "launcher.nnodes" of torchrun and others,
  // "env.CUDA_DEVICE_MAX_CONNECTIONS", "sbatch.nodes".
  Document command;
  // YAML between heredocs, each as text, with the line on which it begins.
  std::vector<std::pair<std::string, int>> embedded{};
  // Variables that may add options to the command, and of which nothing is known.
  std::vector<std::pair<std::string, Location>> open{};
  // What the script compares variables with.
  std::map<std::string, std::vector<std::string>> compared{};
  std::map<std::string, std::string> unfollowed{};  // ShellOutcome
  std::vector<std::string> scripts{};               // that it starts
};

// The settings in a shell script (shell.h), or in a list of arguments as a command line has
// them. The training command is the one with the most options. Names are without their leading
// hyphens. `given`: variables as the user states them.
ShellDocuments ParseShellSettings(std::string_view text, const std::string& file,
                                  const std::map<std::string, std::string>& given);

// The document with its options' names in one spelling: `separator` between words.
Document Spelled(Document document, char separator);

}  // namespace stepcast::foreign
