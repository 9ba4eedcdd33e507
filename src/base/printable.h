#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stepcast {

// Makes text from other processes and files safe to print on a terminal. Escapes the same
// characters as Quoted (diagnostic.h).

// Returns the text on one line: line ends are escaped too.
std::string Printable(std::string_view text);

// Returns the text with its line ends kept.
std::string PrintableLines(std::string_view text);

// The largest number of mistakes that a command prints. If there are more, their number follows.
// Reading a file stops after this many mistakes.
inline constexpr std::size_t kMostShownFaults = 100;

}  // namespace stepcast
