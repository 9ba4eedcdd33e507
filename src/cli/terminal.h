#pragma once

#include <optional>

#include "src/report/terminal_style.h"

namespace stepcast::cli {

// How to draw for stdout: nothing if it is no terminal, unless it is asked for (`forced`). The
// width is the terminal's, else $COLUMNS, else 100. Colours only on a terminal that has them, and
// not where $NO_COLOR is set (no-color.org).
std::optional<report::TerminalStyle> StdoutStyle(std::optional<bool> forced);

}  // namespace stepcast::cli
