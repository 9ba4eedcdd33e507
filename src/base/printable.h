#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stepcast {

// Makes text of other processes and files safe to print on a terminal. The characters that Quoted
// (diagnostic.h) escapes are escaped here too.

// The text on one line: line ends are escaped too.
std::string Printable(std::string_view text);

// The text with its line ends kept.
std::string PrintableLines(std::string_view text);

// The largest number of mistakes that a command prints; a count of the rest follows. A reader stops
// after this many mistakes in one file.
inline constexpr std::size_t kMostShownFaults = 100;

}  // namespace stepcast
