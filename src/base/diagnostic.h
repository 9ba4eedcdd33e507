#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tl/expected.hpp"

namespace stepcast {

// Where in the user's input something stands. `file` is a path, or the text of the command-line
// option that gave the value ("--set training.precision=bf17"). Lines and columns count from 1;
// 0 means the position has no meaning (a file that cannot be opened).
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
};

// One mistake in the user's input. Bugs of the program itself are STEPCAST_CHECKs instead.
struct Diagnostic {
  std::string code;  // stable, dotted, documented in docs/errors/: "input.unknown-key"
  Location location;
  std::string message;  // what is wrong, the offending value last
  std::string hint;     // what to do about it; may be empty
};

using Diagnostics = std::vector<Diagnostic>;

// A value, or every mistake that was found while making it (never empty).
template <typename T>
using Result = tl::expected<T, Diagnostics>;

// "file:line:column: error[code]: message\n  hint: ...\n"; position parts that are 0 are left out.
std::string Format(const Diagnostic& diagnostic);
std::string Format(const Diagnostics& diagnostics);

// Of `known`, the word nearest to `word` by edit distance, if it is near enough to be a typing
// mistake; empty otherwise. For hints: "did you mean ...".
std::string_view NearestWord(std::string_view word, const std::vector<std::string_view>& known);

// The user's text as it may stand in a message: in quotes, on one line, control characters
// escaped, and cut when it is longer than `longest` bytes.
std::string Quoted(std::string_view value, std::string_view quote = "'", std::size_t longest = 120);

}  // namespace stepcast
