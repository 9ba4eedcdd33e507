#include "src/report/csv.h"

#include <charconv>
#include <string_view>
#include <system_error>

namespace stepcast::report {
namespace {

bool IsNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Whether a spreadsheet would compute the field.
bool IsFormula(std::string_view field) {
  return !field.empty() &&
         std::string_view("=+-@\t\r").find(field.front()) != std::string_view::npos &&
         !IsNumber(field);
}

}  // namespace

std::string CsvRecord(const std::vector<std::string>& fields) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out.push_back(',');
    const bool formula = IsFormula(fields[i]);
    if (!formula && fields[i].find_first_of(",\"\r\n") == std::string::npos) {
      out.append(fields[i]);
      continue;
    }
    out.push_back('"');
    if (formula) out.push_back('\'');
    for (char c : fields[i]) {
      if (c == '"') out.push_back('"');
      out.push_back(c);
    }
    out.push_back('"');
  }
  out.append("\r\n");
  return out;
}

}  // namespace stepcast::report
