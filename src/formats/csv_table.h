#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// Tables as spreadsheets and loggers write them: RFC 4180.
namespace stepcast::formats {

// Many times those of any schedule, and of any table of runs, so that 16 MiB of small fields do not
// fill the memory: what a table is made into takes a kilobyte for each.
inline constexpr std::size_t kMostCsvFields = 1'000'000;
inline constexpr std::size_t kMostCsvTableFields = 200'000;
inline constexpr std::size_t kMostCsvColumns = 100;

struct CsvCell {
  std::string text;  // quotes resolved, blanks around it taken off where it has none
  Location location;
};

struct CsvTable {
  std::vector<CsvCell> headings;
  std::vector<std::vector<CsvCell>> rows;  // as long as the headings
};

// Lines of fields, as many in each as it has. Fields are parted by commas, lines end in LF or CRLF;
// a field in double quotes may hold commas, line ends and doubled quotes. Blank lines, and lines
// that begin with '#', are left out. `file` names the text in positions. Errors, as many as are
// shown: csv.quote (text after a closing quote, or no closing quote), file.too-large (more than
// kMostCsvFields in all).
Result<std::vector<std::vector<CsvCell>>> ParseCsvRows(std::string_view text,
                                                       const std::string& file);

// The same with headings on the first line. Further errors: csv.fields (a line has more or fewer
// fields than the headings), csv.heading (none, an empty one, or one twice), file.too-large (more
// than kMostCsvTableFields, or than kMostCsvColumns headings).
Result<CsvTable> ParseCsv(std::string_view text, const std::string& file);

}  // namespace stepcast::formats
