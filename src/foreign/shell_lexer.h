#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// A shell script as commands, before anything in them is expanded.
namespace stepcast::foreign {

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

}  // namespace stepcast::foreign
