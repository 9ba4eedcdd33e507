#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stepcast {

// Makes text from other processes and files safe to print on a terminal. Escapes the same
// characters as Quoted (diagnostic.h).

// Returns the text on one line, with line ends escaped.
std::string Printable(std::string_view text);

// Returns the text with line ends unchanged.
std::string PrintableLines(std::string_view text);

// The largest number of mistakes that a command prints, followed by the number of further mistakes.
// A file is read only up to this many mistakes.
inline constexpr std::size_t kMostShownFaults = 100;

}  // namespace stepcast
