#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/report/text_wrap.h"

// Tables for people: aligned columns of plain text, one heading line, units in the headings.
namespace stepcast::report {

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string heading;
  Align align = Align::kRight;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // One cell for each column.
  void AddRow(std::vector<std::string> cells);
  // A line across the table: sums stand below it.
  void AddRule();

  // Heading, rule, rows. Columns are two spaces apart; no line ends in a blank; every line ends
  // in a newline. No line is wider than `width` characters (code points of UTF-8): of a table that
  // would be, as far as it takes, headings stand in several lines, columns with the same cell in
  // all rows are said once above the rows, text is broken at word boundaries, and columns that
  // still find no place stand in further blocks, whose rows begin with the first columns, or
  // with numbers where these do not tell rows apart.
  std::string ToString(std::size_t width = TextWidth()) const;

  const std::vector<Column>& columns() const { return columns_; }
  // A row without cells is a rule.
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stepcast::report
