#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stepcast {

// Text of other processes and of files as a terminal may show it: what Quoted (diagnostic.h)
// escapes is escaped here, too.

// On one line.
std::string Printable(std::string_view text);

// Line by line: line ends stay.
std::string PrintableLines(std::string_view text);

// A command prints at most this many mistakes, and behind them the number of the others. A reader
// that finds so many in one file stops reading it.
inline constexpr std::size_t kMostShownFaults = 100;

}  // namespace stepcast
