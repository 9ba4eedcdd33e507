#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// Reads tables in CSV, as written by spreadsheets and loggers (RFC 4180).
namespace stepcast::formats {

// Limits of a table, far above real schedules and tables of runs. Without limits, 16 MiB of small
// fields could exhaust the memory, because a parsed field needs up to a kilobyte.
inline constexpr std::size_t kMostCsvFields = 1'000'000;
inline constexpr std::size_t kMostCsvTableFields = 200'000;
inline constexpr std::size_t kMostCsvColumns = 100;

struct CsvCell {
  std::string text;  // without quotes; unquoted text is trimmed
  Location location;
};

struct CsvTable {
  std::vector<CsvCell> headings;
  std::vector<std::vector<CsvCell>> rows;  // each row has one cell per heading
};

// Parses lines with any number of fields, separated by commas. Lines end in LF or CRLF. A field in
// double quotes may contain commas, line ends and doubled quotes. Blank lines and lines that begin
// with '#' are skipped. `file` is the file name in positions. Errors, up to kMostShownFaults:
// csv.quote (text after a closing quote, or no closing quote), file.too-large (more than
// kMostCsvFields fields).
Result<std::vector<std::vector<CsvCell>>> ParseCsvRows(std::string_view text,
                                                       const std::string& file);

// Parses a table with headings on the first line. Errors of ParseCsvRows also apply. Further
// errors: csv.fields (a line with more or fewer fields than headings), csv.heading (missing, empty
// or duplicate), file.too-large (more than kMostCsvTableFields fields or kMostCsvColumns headings).
Result<CsvTable> ParseCsv(std::string_view text, const std::string& file);

}  // namespace stepcast::formats
