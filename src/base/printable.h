#pragma once

#include <string>
#include <string_view>

// Text of other processes and of files as a terminal may show it: what Quoted (diagnostic.h)
// escapes is escaped here, too.
namespace stepcast {

// On one line.
std::string Printable(std::string_view text);

// Line by line: line ends stay.
std::string PrintableLines(std::string_view text);

}  // namespace stepcast
