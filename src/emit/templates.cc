#include "src/emit/templates.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "src/base/check.h"

namespace stepcast::emit {

std::string Filled(std::string_view text,
                   const std::map<std::string, std::string, std::less<>>& values) {
  std::string filled;
  std::vector<char> open;  // for each `%if` around the line, whether its lines are written
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n') + 1);
    text.remove_prefix(line.size());
    if (line.starts_with("%if ")) {
      const auto value = values.find(line.substr(4, line.size() - 5));
      open.push_back(value != values.end() && !value->second.empty() ? 1 : 0);
    } else if (line == "%else\n") {
      open.back() = open.back() == 0 ? 1 : 0;
    } else if (line == "%end\n") {
      open.pop_back();
    } else if (std::find(open.begin(), open.end(), 0) == open.end()) {
      for (std::size_t at = line.find('@'); at != std::string_view::npos; at = line.find('@')) {
        const std::size_t end = line.find('@', at + 1);
        const auto value = values.find(line.substr(at + 1, end - at - 1));
        STEPCAST_CHECK(value != values.end(), "a template must have all its values");
        filled += line.substr(0, at);
        filled += value->second;
        line.remove_prefix(end + 1);
      }
      filled += line;
    }
  }
  return filled;
}

}  // namespace stepcast::emit
