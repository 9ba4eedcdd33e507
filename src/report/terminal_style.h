#pragma once

namespace stepcast::report {

// How to draw for a terminal.
struct TerminalStyle {
  int width = 80;       // columns of the terminal
  bool colour = false;  // by escape sequences; letters say the same
};

}  // namespace stepcast::report
