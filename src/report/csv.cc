#include "src/report/csv.h"

namespace stepcast::report {

std::string CsvRecord(const std::vector<std::string>& fields) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out.push_back(',');
    if (fields[i].find_first_of(",\"\r\n") == std::string::npos) {
      out.append(fields[i]);
      continue;
    }
    out.push_back('"');
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
