#pragma once

#include <string>
#include <vector>

namespace stepcast::report {

// One record of a CSV file as RFC 4180 has it: fields that hold a comma, a quote or a line break
// stand in double quotes, quotes in them doubled; the line ends in CR LF.
std::string CsvRecord(const std::vector<std::string>& fields);

}  // namespace stepcast::report
