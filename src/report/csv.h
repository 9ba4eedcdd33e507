#pragma once

#include <string>
#include <vector>

namespace stepcast::report {

// One record of a CSV file as RFC 4180 has it: fields that hold a comma, a quote or a line break
// stand in double quotes, quotes in them doubled; the line ends in CR LF. Text that a spreadsheet
// would take for a formula, because it begins with one of = + - @, a tab or CR and is no number,
// has a single quote before it, by which spreadsheets tell text (OWASP, CSV injection).
std::string CsvRecord(const std::vector<std::string>& fields);

}  // namespace stepcast::report
