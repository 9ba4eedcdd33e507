#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stepcast {

// Makes text from other processes and files safe to print on a terminal, with the same escapes as
// Quoted (diagnostic.h).

// Returns the text on one line, with line ends escaped.
std::string Printable(std::string_view text);

// Returns the text with line ends unchanged.
std::string PrintableLines(std::string_view text);

// The largest number of mistakes that a command prints. Reading a file stops after this number of
// mistakes.
inline constexpr std::size_t kMostShownFaults = 100;

}  // namespace stepcast
