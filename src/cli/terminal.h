#pragma once

#include <optional>

#include "src/report/terminal_style.h"

namespace stepcast::cli {

// The terminal's width, else $COLUMNS, else 80.
int StdoutWidth();

// How to draw for stdout: nothing if it is no terminal, unless it is asked for (`forced`). The
// width is StdoutWidth. Colours only on a terminal that has them, and not where $NO_COLOR is set
// (no-color.org).
std::optional<report::TerminalStyle> StdoutStyle(std::optional<bool> forced);

}  // namespace stepcast::cli
