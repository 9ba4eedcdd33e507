#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/foreign/shell_lexer.h"

// What a shell script puts together, without executing anything: assignments, arrays, ${A:-b},
// $((A * b)), and tests and cases of variables that are known are followed; commands are listed
// with their words. A value that depends on anything else is unknown, and names the variable that
// would say it.
namespace stepcast::foreign {

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

}  // namespace stepcast::foreign
