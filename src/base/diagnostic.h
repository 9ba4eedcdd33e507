#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tl/expected.hpp"

namespace stepcast {

// A position in the user's input. `file` is a path, or the command-line option that contains the
// value ("--set training.precision=bf17"). Lines and columns count from 1. Both numbers are 0 if
// there is no position, for example if a file cannot be opened.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
};

// A mistake in the user's input. For bugs of the program, use STEPCAST_CHECK instead.
struct Diagnostic {
  std::string code;  // stable and dotted ("input.unknown-key"); docs/errors/ documents it
  Location location;
  std::string message;  // what is wrong; ends with the wrong value
  std::string hint;     // what the user can do; may be empty
};

using Diagnostics = std::vector<Diagnostic>;

// Either a value, or all mistakes found while the value was computed (at least one).
template <typename T>
using Result = tl::expected<T, Diagnostics>;

// Returns "file:line:column: error[code]: message\n hint: ...\n". Line and column are omitted if
// they are 0.
std::string Format(const Diagnostic& diagnostic);
std::string Format(const Diagnostics& diagnostics);

// Returns the word in `known` with the smallest edit distance to `word`, for hints ("did you mean
// ..."). Empty if no known word is similar enough to be a likely typing mistake.
std::string_view NearestWord(std::string_view word, const std::vector<std::string_view>& known);

// Returns the user's text for a message: in quotes, on one line, with control characters escaped,
// and truncated to `longest` bytes.
std::string Quoted(std::string_view value, std::string_view quote = "'", std::size_t longest = 120);

}  // namespace stepcast
