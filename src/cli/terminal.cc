#include "src/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace stepcast::cli {
namespace {

int Width(bool terminal) {
  constexpr int kLeast = 40, kMost = 400, kOtherwise = 80;
  int width = 0;
  if (terminal) {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  }
  if (width == 0) {
    if (const char* columns = std::getenv("COLUMNS")) width = std::atoi(columns);
  }
  return width <= 0 ? kOtherwise : std::clamp(width, kLeast, kMost);
}

}  // namespace

int StdoutWidth() { return Width(::isatty(STDOUT_FILENO) == 1); }

std::optional<report::TerminalStyle> StdoutStyle(std::optional<bool> forced) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  if (!forced.value_or(terminal)) return std::nullopt;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  const bool colour = terminal && (no_colour == nullptr || *no_colour == '\0') && kind != nullptr &&
                      *kind != '\0' && std::string_view(kind) != "dumb";
  return report::TerminalStyle{.width = Width(terminal), .colour = colour};
}

}  // namespace stepcast::cli
