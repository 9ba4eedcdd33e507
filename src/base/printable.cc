#include "src/base/printable.h"

#include "src/base/diagnostic.h"

namespace stepcast {

std::string Printable(std::string_view text) { return Quoted(text, "", std::string_view::npos); }

std::string PrintableLines(std::string_view text) {
  std::string shown;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    shown += Printable(text.substr(begin, end - begin));
    if (end == std::string_view::npos) break;
    shown += '\n';
    begin = end + 1;
  }
  return shown;
}

}  // namespace stepcast
